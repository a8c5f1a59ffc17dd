import { execFile } from "node:child_process";
import { availableParallelism, totalmem } from "node:os";
import { promisify } from "node:util";
import { type HardwareConfig, isGpu } from "../../model/app-config.ts";
import type { GpuKind, MachineGpus } from "../../model/gpu.ts";
import { BuildError, type BuildSite } from "./site.ts";
import { readBundleText } from "./bundle-files.ts";
import { type ImageWish, wantedImage } from "./images/wanted-image.ts";

/** The files that clients make of the tables. */
const GENERATED = { apt: "pkglist.txt", conda: "conda_pkglist.txt" } as const;

/** Each costs a process outside the build's walls; no image has as many. */
const MAX_LISTED = 1_000;

/** Compares an app with this host: throws a `BuildError`, or warns. Gives its image; null for a process of this host. */
export async function checkHost(site: BuildSite): Promise<ImageWish | null> {
  const { customRuntime, hardware } = site.config;
  const hasDockerfile = customRuntime !== null && customRuntime.dockerfilePath !== null;
  if (!hasDockerfile) requireEntrypoint(site);
  for (const warning of hardwareWarnings(hardware, site.gpus?.current(), site.gpus?.ofOtherNodes?.()))
    site.say(`warning: ${warning}`, "stderr");
  // It says itself what is installed.
  if (hasDockerfile) return await wantedImage({ listed: [], missing: [] }, site);
  const conda = await listed("conda", site);
  if (conda.length > 0)
    throw new BuildError(
      `Conda packages are not supported on this host (${conda.join(", ")}). ` +
        "List what is on PyPI under [dependencies.pip] instead, or deploy a Dockerfile",
    );
  const apt = await listed("apt", site);
  const missing = apt.length > 0 ? await notInstalled(apt, site.signal) : [];
  const image = await wantedImage({ listed: apt, missing }, site);
  const installed = apt.filter((name) => !missing.includes(bareName(name)));
  if (image === null && installed.length > 0)
    site.say(`system packages already on this host: ${installed.join(", ")}`);
  return image;
}

/** Throws a `BuildError` for a server without a start command. */
export function requireEntrypoint({ config: { customRuntime } }: BuildSite): void {
  if (customRuntime?.entrypoint.length === 0)
    throw new BuildError(
      'runtime.custom.entrypoint is missing: the command that starts the server, such as ["uvicorn", "main:app", "--port", "8000"]',
    );
}

/** What an app asks for and its machine does not have. Whether it will ever get GPUs is `GpuRoom`'s to say. */
export function hardwareWarnings(
  hardware: HardwareConfig,
  gpus: MachineGpus | undefined,
  others: readonly (readonly GpuKind[])[] = [],
): string[] {
  const { cpu, memoryGb } = hardware;
  const warnings: string[] = [];
  const cpus = availableParallelism();
  const hostGb = totalmem() / 1e9;
  if (cpu > cpus) warnings.push(`cpu = ${cpu}, but this host has ${cpus}`);
  if (memoryGb > hostGb) warnings.push(`memory = ${memoryGb} GB, but this host has ${hostGb.toFixed(1)} GB`);
  const gpuWarning = gpus === undefined ? null : whyOnCpu(hardware, gpus, others);
  if (gpuWarning !== null) warnings.push(gpuWarning);
  return warnings;
}

/** Why an app that names a GPU or a number of them runs on the CPU; null if it does not. */
function whyOnCpu(
  { compute, gpuCount }: HardwareConfig,
  { gpus, trouble, isDown }: MachineGpus,
  others: readonly (readonly GpuKind[])[],
): string | null {
  const models = compute.filter(isGpu);
  if (models.length === 0 && gpuCount === 0) return null;
  // It names the CPU, too.
  if (models.length > 0 && models.length < compute.length) return null;
  const wanted = models.length > 0 ? `compute = ${models.join(", ")}` : `gpu_count = ${gpuCount}`;
  const isAnywhere = isDown === true || gpus.length > 0 || others.some(({ length }) => length > 0);
  if (!isAnywhere) {
    const why = trouble === null ? "this host has no GPU" : `no GPU of this host can be used (${trouble})`;
    return `${wanted}, but ${why}: the app runs on its CPU`;
  }
  if (models.length > 0) return null;
  return `${wanted}, but compute names no GPU: the app runs on the CPU (compute = "ANY" takes every model)`;
}

/** Names of packages: those of the named file, else of the table, else of the file clients make of the table. */
export async function listed(kind: "apt" | "conda", { config, bundleDir }: BuildSite): Promise<string[]> {
  const { dependencies } = config;
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
    const args = ["-W", "-f", "${db:Status-Status}", "--", bare];
    const asked = await promisify(execFile)("dpkg-query", args).catch(() => null);
    if (asked?.stdout !== "installed") missing.push(bare);
  }
  return missing;
}

function bareName(name: string): string {
  return name.split(/[=\s]/)[0] ?? "";
}
