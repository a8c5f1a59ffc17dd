import type { Containers } from "../../../host/containers/containers.ts";
import type { ContainerTool } from "../../../host/containers/container-tool.ts";
import { BuildError, type BuildSite } from "../site.ts";
import { insideBundle } from "../bundle-files.ts";

/** An image that is to be built, and what builds it. */
export type ImageWish = { readonly containers: Containers; readonly tool: ContainerTool } & (
  | /** By its real place in the bundle. */ { readonly kind: "dockerfile"; readonly file: string }
  | { readonly kind: "layers"; readonly base: string; readonly apt: readonly string[] }
);

/** System packages that an app asks for, and those of them that the host has not. */
type SystemPackages = { readonly listed: readonly string[]; readonly missing: readonly string[] };

const FILES_THAT_RUN_ONCE = "files that run once have no image";

/** The image to run the app in; null for a process of this host. Throws a `BuildError`, or warns, if none can be built. */
export async function wantedImage(packages: SystemPackages, site: BuildSite): Promise<ImageWish | null> {
  const { listed, missing } = packages;
  const { deployment, customRuntime } = site.config;
  const { dockerBaseImageUrl, requireImage, containerRuntime } = deployment;
  const dockerfile = customRuntime?.dockerfilePath ?? null;
  const file = dockerfile === null ? null : await insideBundle(site.bundleDir, dockerfile);
  if (dockerfile !== null && file === null)
    throw new BuildError(`dockerfile_path: there is no ${dockerfile} in the bundle`);
  const warn = (text: string): void => site.say(`warning: ${text}`, "stderr");
  if (file === null && dockerBaseImageUrl === null && missing.length === 0) {
    if (containerRuntime !== null)
      warn("container_runtime is not used: the app runs as a process of this host");
    return null;
  }
  const found = site.images === null ? { lack: FILES_THAT_RUN_ONCE } : await site.images.containers.find();
  if (!("tool" in found) || site.images === null) {
    const { lack } = found as { lack: string };
    if (file !== null)
      throw new BuildError(`a Dockerfile needs podman or docker on this host: ${lack}. ${INSTALL}`);
    const asked = withoutImage(dockerBaseImageUrl, missing, lack);
    if (requireImage) throw new BuildError(`require_image is set, but ${asked.join("; ")}. ${INSTALL}`);
    for (const text of asked)
      warn(`${text}. The build goes on without it; to have it fail instead, set require_image = true`);
    return null;
  }
  const { tool } = found;
  const { containers, baseImage } = site.images;
  const runtime = containerRuntime === "v2" ? "runsc" : "runc";
  const lacks = `needs ${runtime}, which this host has not: using the runtime of ${tool.kind}`;
  if (containerRuntime !== null && !tool.runtimes.includes(runtime))
    warn(`container_runtime = "${containerRuntime}" ${lacks}`);
  if (file !== null) return { kind: "dockerfile", file, containers, tool };
  return { kind: "layers", base: baseOf(baseImage, site), apt: listed, containers, tool };
}

/** What an image that gets system packages begins from: the app's own, or the service's for the app's Python. */
export function baseOf(baseImage: string, { config, python }: BuildSite): string {
  const { dockerBaseImageUrl, pythonVersion } = config.deployment;
  const version = (pythonVersion ?? python.version).split(".").slice(0, 2).join(".");
  return dockerBaseImageUrl ?? baseImage.replaceAll("{python}", version);
}

const INSTALL = "Install podman 5.3.2 or newer, or Docker, and deploy again";

function withoutImage(base: string | null, missing: readonly string[], lack: string): string[] {
  const texts: string[] = [];
  if (base !== null) texts.push(`docker_base_image_url needs podman or docker on this host: ${lack}`);
  if (missing.length > 0)
    texts.push(
      `system packages are missing on this host: ${missing.join(", ")}. They need podman or docker (${lack}), or whoever runs the host runs: apt-get install ${missing.join(" ")}`,
    );
  return texts;
}

/** Says what of an app's configuration does not count, because it has a Dockerfile. */
export function warnOfIgnored({ config: { deployment, dependencies }, say }: BuildSite): void {
  const { pip, apt, conda } = dependencies;
  const tables = Object.entries({ pip, apt, conda }).filter(([, table]) => Object.keys(table).length > 0);
  const ignored = [
    ...tables.map(([name]) => `dependencies.${name}`),
    ...(deployment.shellCommands.length > 0 ? ["shell_commands"] : []),
    ...(deployment.preBuildCommands.length > 0 ? ["pre_build_commands"] : []),
    ...(deployment.dockerBaseImageUrl === null ? [] : ["docker_base_image_url"]),
  ];
  if (ignored.length > 0)
    say(`warning: the Dockerfile decides what is installed: ignoring ${ignored.join(", ")}`, "stderr");
}
