import { availableParallelism } from "node:os";
import { readAppConfig } from "../../config/app-config.ts";
import { APP_KEYS } from "../../config/app-shape.ts";
import type { Host } from "../../config/readers.ts";
import { ConfigError } from "../../config/problems.ts";
import { AppError } from "../../model/errors.ts";

/** `false` has a bundle refused whose Python files do not parse. Without it only `main.py` has to: other clients check before they upload. */
export const SYNTAX_MEMBER = "disableSyntaxCheck";

/** The members of a deploy's payload that configure the app; others are ignored. */
const PAYLOAD_MEMBERS: readonly string[] = [
  "runtime",
  "cerebrium_toml",
  SYNTAX_MEMBER,
  ...APP_KEYS.flatMap(({ payload }) => payload ?? []),
];

export type Payload = Readonly<Record<string, unknown>>;

export type DeployRequest = {
  readonly name: string;
  /** The payload's members that count: nothing else of it is kept, no secret above all. */
  readonly payload: Payload;
  /** A secret: it is never stored. */
  readonly registryAuth: RegistryAuth | null;
};

/** What this machine contributes to an app's configuration. */
export const THIS_HOST: Host = { cpuCount: availableParallelism() };

/** Reads a deploy's payload; throws `deploy_invalid` with all that is wrong with it. */
export function readDeployRequest(payload: Payload, host: Host = THIS_HOST): DeployRequest {
  const members = PAYLOAD_MEMBERS.filter((member) => Object.hasOwn(payload, member));
  const kept = Object.fromEntries(members.map((member) => [member, payload[member]]));
  try {
    const { config } = readAppConfig({ payload: kept, host });
    const { name } = config.deployment;
    if (name !== null) return { name, payload: kept, registryAuth: readRegistryAuth(payload["dockerAuth"]) };
  } catch (error) {
    if (error instanceof ConfigError) throw invalid(error.problems);
    throw error;
  }
  throw invalid(["name is required: the app's name"]);
}

function invalid(problems: readonly string[]): AppError {
  const details = problems.map((problem) => ({ problem }));
  return new AppError("deploy_invalid", { message: problems.join("; "), details });
}

/** Logins for image registries, as in a Docker configuration. */
export type RegistryAuth = { readonly auths: Readonly<Record<string, { readonly auth: string }>> };

const MAX_CHARS = 64 * 1024;

/** Reads the logins of a Docker configuration that a client sends as text; null if it has none, or is invalid. */
export function readRegistryAuth(sent: unknown): RegistryAuth | null {
  if (typeof sent !== "string" || sent.length > MAX_CHARS) return null;
  let auths: unknown;
  try {
    auths = (JSON.parse(sent) as { auths?: unknown } | null)?.auths;
  } catch {
    return null;
  }
  if (typeof auths !== "object" || auths === null) return null;
  const usable = Object.entries(auths).flatMap(([registry, entry]: [string, unknown]) => {
    const auth = (entry as { auth?: unknown } | null)?.auth;
    return typeof auth === "string" && auth !== "" ? [[registry, { auth }] as const] : [];
  });
  // The rest of such a file may name programs to run.
  return usable.length === 0 ? null : { auths: Object.fromEntries(usable) };
}
