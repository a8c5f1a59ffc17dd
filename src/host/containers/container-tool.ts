import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import type { Settings } from "../../config/setting-keys.ts";

export type ContainerTool = {
  readonly kind: "podman" | "docker";
  readonly program: string;
  readonly version: string;
  /** Root in its containers is the service's own user outside. */
  readonly isRootless: boolean;
  /** The OCI runtimes that it can use, by name. */
  readonly runtimes: readonly string[];
  /** Podman's store of the host's own images; null for docker, which has a single store. */
  readonly store: { readonly driver: string; readonly folder: string } | null;
};

export type FoundTool = { readonly tool: ContainerTool } | { readonly lack: string };

const ASK_MS = 30_000;
const RUNTIMES = ["runc", "crun", "runsc"] as const;

/** The variables of the service that the tool gets: paths, and the proxy to a registry. */
const PASSED =
  /^(?:PATH|HOME|USER|LANG|TMPDIR|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|DOCKER_HOST|DOCKER_CONFIG|CONTAINERS_\w+|REGISTRY_AUTH_FILE|SSL_CERT_\w+|(?:https?|no|all)_proxy)$/i;

/** Folders of network programs that the PATH of a service may lack. */
const FOR_ROOT = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/** The first podman without known vulnerabilities in builds (CVE-2024-1753, CVE-2024-9675, CVE-2024-11218). */
const SAFE_PODMAN = [5, 3, 2] as const;

/** Whether a Dockerfile can escape its build: `RUN --mount` of an older podman follows links. Backported fixes do not count. */
export function hasKnownHoles({ kind, version }: Pick<ContainerTool, "kind" | "version">): boolean {
  if (kind === "docker") return false;
  const found = version.split(/[.-]/).map(Number);
  const differs = SAFE_PODMAN.findIndex((part, index) => (found[index] ?? 0) !== part);
  return differs !== -1 && (found[differs] ?? 0) < (SAFE_PODMAN[differs] ?? 0);
}

const HOLES = "a Dockerfile can get out of its builds by known faults";
const UPDATE = `update it to ${SAFE_PODMAN.join(".")}, or set MILLRACE_CONTAINER_ENGINE=podman if you trust all who deploy`;

/** The environment of the tool, without variables of apps. */
export function toolEnvironment(host: NodeJS.ProcessEnv): Record<string, string> {
  const kept = Object.entries(host).filter(([name]) => PASSED.test(name));
  const folders = [host["PATH"] ?? "", ...FOR_ROOT].filter((folder) => folder !== "");
  return {
    ...Object.fromEntries(kept.map(([name, value]) => [name, value ?? ""])),
    PATH: folders.join(path.delimiter),
  };
}

export async function findContainerTool(
  wish: Settings["containerEngine"],
  host: NodeJS.ProcessEnv,
): Promise<FoundTool> {
  if (wish === "none") return { lack: "MILLRACE_CONTAINER_ENGINE=none" };
  const kinds = wish === "auto" ? (["podman", "docker"] as const) : [wish];
  const lacks: string[] = [];
  for (const kind of kinds) {
    const program = onPath(kind, host);
    if (program === null) {
      lacks.push(`${kind} is not installed`);
      continue;
    }
    try {
      const tool = await ask(kind, program, host);
      // An operator who names it accepts the risk.
      if (wish !== "auto" || !hasKnownHoles(tool)) return { tool };
      lacks.push(`${kind} ${tool.version} is not used, as ${HOLES}; ${UPDATE}`);
    } catch (error) {
      lacks.push(`${kind} does not work: ${firstLine(error)}`);
    }
  }
  return { lack: lacks.join(", ") };
}

async function ask(
  kind: "podman" | "docker",
  program: string,
  host: NodeJS.ProcessEnv,
): Promise<ContainerTool> {
  const format = kind === "podman" ? "json" : "{{json .}}";
  const { stdout } = await promisify(execFile)(program, ["info", "--format", format], {
    env: toolEnvironment(host),
    timeout: ASK_MS,
    killSignal: "SIGKILL",
  });
  // The output of the tool itself, not of an app.
  // oxlint-disable-next-line no-unsafe-type-assertion
  const info = JSON.parse(stdout) as ToolInfo;
  const common = { kind, program };
  if (kind === "podman") {
    return {
      ...common,
      version: info.version?.Version ?? "",
      isRootless: info.host?.security?.rootless ?? false,
      runtimes: RUNTIMES.filter((name) => onPath(name, host) !== null),
      store: { driver: info.store?.graphDriverName ?? "overlay", folder: info.store?.graphRoot ?? "" },
    };
  }
  // Without its daemon, the program still prints a lot.
  if (!info.ServerVersion) throw new Error(info.ServerErrors?.[0] ?? "its daemon does not answer");
  return {
    ...common,
    version: info.ServerVersion,
    isRootless: info.SecurityOptions?.some((option) => option.includes("rootless")) ?? false,
    runtimes: Object.keys(info.Runtimes ?? {}),
    store: null,
  };
}

/** What podman says of itself, then what docker does. */
type ToolInfo = {
  readonly version?: { readonly Version?: string };
  readonly host?: { readonly security?: { readonly rootless?: boolean } };
  readonly store?: { readonly graphDriverName?: string; readonly graphRoot?: string };
  readonly ServerVersion?: string;
  readonly ServerErrors?: readonly string[];
  readonly SecurityOptions?: readonly string[];
  readonly Runtimes?: Readonly<Record<string, unknown>>;
};

function onPath(name: string, host: NodeJS.ProcessEnv): string | null {
  const folders = (host["PATH"] ?? "").split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  return folders.map((folder) => path.join(folder, name)).find((file) => existsSync(file)) ?? null;
}

function firstLine(error: unknown): string {
  const { stderr, message } = error as Error & { readonly stderr?: string };
  const text = stderr?.trim() ? stderr : message;
  return text.trim().split("\n")[0] ?? "";
}
