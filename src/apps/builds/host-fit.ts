import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { promisify } from "node:util";
import type {
  AppConfig,
  CustomRuntimeConfig,
  DependenciesConfig,
  HardwareConfig,
} from "../../model/app-config.ts";
import { BuildError } from "./build-error.ts";
import { readBundleText } from "./bundle-files.ts";
import type { BuildSite } from "./site.ts";

/** The files that clients make of the tables. */
const GENERATED = { apt: "pkglist.txt", conda: "conda_pkglist.txt" } as const;

/**
 * Holds what an app asks for against what this host has. Throws a `BuildError` for what it cannot be without, and
 * warns of the rest.
 */
export async function checkHost(config: AppConfig, site: BuildSite): Promise<void> {
  if (config.customRuntime) checkServer(config.customRuntime);
  const warn = (text: string): void => site.say(`warning: ${text}`, "stderr");
  for (const warning of hardwareWarnings(config.hardware)) warn(warning);
  if (config.deployment.dockerBaseImageUrl !== null) {
    warn("docker_base_image_url is not used: apps run as processes of this host, not in images");
  }
  const conda = await listed("conda", config.dependencies, site);
  if (conda.length > 0) {
    throw new BuildError(
      `Conda packages are not supported on this host (${conda.join(", ")}). ` +
        "List what is on PyPI under [dependencies.pip] instead",
    );
  }
  const apt = await listed("apt", config.dependencies, site);
  const missing = apt.length > 0 ? await notInstalled(apt) : [];
  if (missing.length > 0) {
    throw new BuildError(
      `system packages are missing on this host, and Millrace does not install them: ${missing.join(", ")}. ` +
        `Ask whoever runs the host to run: apt-get install ${missing.join(" ")}`,
    );
  }
  if (apt.length > 0) site.say(`system packages already on this host: ${apt.join(", ")}`);
}

/** A server has to be startable here. */
function checkServer({ entrypoint, dockerfilePath }: CustomRuntimeConfig): void {
  if (dockerfilePath !== null) {
    throw new BuildError(
      "runtime.custom.dockerfile_path: images are not supported yet. Remove it, and start the server with runtime.custom.entrypoint",
    );
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
  const gpus = compute.filter((name) => name.toUpperCase() !== "CPU");
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
  return words.filter((word) => word !== "");
}

async function notInstalled(names: readonly string[]): Promise<string[]> {
  const missing: string[] = [];
  for (const name of names) {
    const [bare = ""] = name.split(/[=\s]/);
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
