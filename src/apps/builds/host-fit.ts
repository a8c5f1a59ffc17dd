import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { promisify } from "node:util";
import { isGpu } from "../../model/app-config.ts";
import type {
  AppConfig,
  CustomRuntimeConfig,
  DependenciesConfig,
  HardwareConfig,
} from "../../model/app-config.ts";
import { BuildError } from "./build-error.ts";
import { insideBundle, readBundleText } from "./bundle-files.ts";
import type { BuildSite } from "./site.ts";

/** The files that clients make of the tables. */
const GENERATED = { apt: "pkglist.txt", conda: "conda_pkglist.txt" } as const;

/** Each is asked for by a process of its own, outside the build's walls; no image has as many. */
const MAX_LISTED = 1_000;

const NO_IMAGES = "apps run as processes of this host, not in images";
const WITHOUT_IMAGE =
  "Remove it, list the app's packages under [dependencies.pip], and answer calls with functions in main.py";

/**
 * Holds what an app asks for against what this host has. Throws a `BuildError` for what it cannot be without, and
 * warns of the rest.
 */
export async function checkHost(config: AppConfig, site: BuildSite): Promise<void> {
  if (config.customRuntime) await checkServer(config.customRuntime, site);
  const { dockerBaseImageUrl, containerRuntime, requireImage } = config.deployment;
  const warn = (text: string): void => site.say(`warning: ${text}`, "stderr");
  for (const warning of hardwareWarnings(config.hardware)) warn(warning);
  if (dockerBaseImageUrl !== null) {
    if (requireImage) throw new BuildError(`require_image is set, but ${NO_IMAGES}. ${WITHOUT_IMAGE}`);
    warn(`docker_base_image_url is not used: ${NO_IMAGES}`);
  }
  if (containerRuntime !== null) warn(`container_runtime is not used: ${NO_IMAGES}`);
  const conda = await listed("conda", config.dependencies, site);
  if (conda.length > 0) {
    throw new BuildError(
      `Conda packages are not supported on this host (${conda.join(", ")}). ` +
        "List what is on PyPI under [dependencies.pip] instead",
    );
  }
  const apt = await listed("apt", config.dependencies, site);
  const missing = apt.length > 0 ? await notInstalled(apt, site.signal) : [];
  const installed = apt.filter((name) => !missing.includes(bareName(name)));
  if (installed.length > 0) site.say(`system packages already on this host: ${installed.join(", ")}`);
  if (missing.length === 0) return;
  const text =
    `system packages are missing on this host, and Millrace does not install them: ${missing.join(", ")}. ` +
    `Ask whoever runs the host to run: apt-get install ${missing.join(" ")}`;
  if (requireImage) throw new BuildError(text);
  warn(`${text}. The build goes on without them; to have it fail instead, set require_image = true`);
}

/** A server has to be startable here. */
async function checkServer(
  { entrypoint, dockerfilePath }: CustomRuntimeConfig,
  { bundleDir }: BuildSite,
): Promise<void> {
  if (dockerfilePath !== null) {
    if ((await insideBundle(bundleDir, dockerfilePath)) === null) {
      throw new BuildError(`dockerfile_path: there is no ${dockerfilePath} in the bundle`);
    }
    throw new BuildError(`dockerfile_path is not supported yet: ${NO_IMAGES}. ${WITHOUT_IMAGE}`);
  }
  if (entrypoint.length === 0) {
    throw new BuildError(
      'runtime.custom.entrypoint is missing: the command that starts the server, such as ["uvicorn", "main:app", "--port", "8000"]',
    );
  }
}

function hardwareWarnings({ cpu, memoryGb, compute, gpuCount }: HardwareConfig): string[] {
  const warnings: string[] = [];
  const cpus = availableParallelism();
  const hostGb = totalmem() / 1e9;
  if (cpu > cpus) warnings.push(`cpu = ${cpu}, but this host has ${cpus}`);
  if (memoryGb > hostGb) warnings.push(`memory = ${memoryGb} GB, but this host has ${hostGb.toFixed(1)} GB`);
  const gpus = compute.filter(isGpu);
  if ((gpus.length > 0 || gpuCount > 0) && !existsSync("/proc/driver/nvidia/gpus")) {
    const wanted = gpus.length > 0 ? `compute = ${gpus.join(", ")}` : `gpu_count = ${gpuCount}`;
    warnings.push(`${wanted}, but this host has no GPU: the app runs on its CPU`);
  }
  return warnings;
}

/** Names of packages: those of the named file, else of the table, else of the file clients make of the table. */
async function listed(
  kind: "apt" | "conda",
  dependencies: DependenciesConfig,
  { bundleDir }: BuildSite,
): Promise<string[]> {
  const named = dependencies.paths[kind];
  const table = Object.keys(dependencies[kind]);
  if (named === null && table.length > 0) return table;
  const text = await readBundleText(bundleDir, named ?? GENERATED[kind]);
  if (text === null && named !== null) throw new BuildError(`${named}: there is no such file in the bundle`);
  const words = (text ?? "").split("\n").map((line) => line.replace(/#.*/, "").trim());
  const names = [...new Set(words.filter((word) => word !== ""))];
  if (names.length > MAX_LISTED)
    throw new BuildError(`${named ?? GENERATED[kind]} lists more than ${MAX_LISTED} packages`);
  return names;
}

async function notInstalled(names: readonly string[], signal: AbortSignal): Promise<string[]> {
  const missing: string[] = [];
  for (const name of names) {
    signal.throwIfAborted();
    const bare = bareName(name);
    const state = await promisify(execFile)("dpkg-query", [
      "-W",
      "-f",
      "${db:Status-Status}",
      "--",
      bare,
    ]).then(
      ({ stdout }) => stdout,
      () => "",
    );
    if (state !== "installed") missing.push(bare);
  }
  return missing;
}

/** Without a version. */
function bareName(name: string): string {
  return name.split(/[=\s]/)[0] ?? "";
}
