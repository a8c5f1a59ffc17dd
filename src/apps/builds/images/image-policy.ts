import path from "node:path";
import { readFile } from "../../../kit/files.ts";

/** What podman goes by when it takes an image from somewhere: conditions for each kind of place, or for all others. */
type Policy = {
  readonly default: readonly unknown[];
  readonly transports?: Readonly<Record<string, Readonly<Record<string, readonly unknown[]>>>>;
};

const ANY: Policy = { default: [{ type: "insecureAcceptAnything" }] };

/**
 * The host's policy for images, with registries alone: `FROM tarball:/…` would take any archive of the host, and
 * `FROM containers-storage:…` what another project's images hold. Images that the store has are not asked about.
 */
export async function registriesOnly(host: NodeJS.ProcessEnv): Promise<Policy> {
  const policy = await hostPolicy(host);
  const { docker = {} } = policy.transports ?? {};
  return { default: [{ type: "reject" }], transports: { docker: { "": policy.default, ...docker } } };
}

/** Where podman looks for it. */
async function hostPolicy({ HOME: home = "/" }: NodeJS.ProcessEnv): Promise<Policy> {
  const places = [path.join(home, ".config/containers/policy.json"), "/etc/containers/policy.json"];
  for (const place of places) {
    const text = await readFile(place, "utf8").catch(() => null);
    // Whoever runs the host has written it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    if (text !== null) return JSON.parse(text) as Policy;
  }
  return ANY;
}
