import type { Limits } from "../host/limits/limits.ts";
import type { GpuWish } from "../model/gpu.ts";
import { type App, type SecretMap, type Version } from "../model/app.ts";
import {
  type AppConfig,
  type BuiltImage,
  type CustomRuntimeConfig,
  isGpu,
  pythonWish,
} from "../model/app-config.ts";
import type { Engine, Workload } from "../engines/engine.ts";

export function workloadOf(app: App, version: Version, secrets: SecretMap): Workload {
  const { id, appNumber, bundle, environment, config } = version;
  const { bundleBlob, environmentBlob, environmentTag } = version;
  const { deployment, scaling, limits, customRuntime } = config;
  return {
    version: { id, appNumber, bundleBlob, environmentBlob, environmentTag },
    projectId: app.projectId,
    names: { app: app.name, version: `v${version.number}` },
    bundle,
    environment,
    python: pythonWish(deployment),
    image: config.built?.reference ?? deployment.dockerBaseImageUrl,
    variables: appVariables(app, { BUILD_ID: id }, secrets),
    concurrency: scaling.replicaConcurrency,
    batching: config.batching,
    ignoreExtra: deployment.extraParams === "ignore",
    maxResultBytes: limits.maxResultBytes,
    maxChunkBytes: limits.maxChunkBytes,
    mayFork: deployment.fork === "auto",
    network: deployment.network,
    unixSockets: deployment.unixSockets,
    containerRuntime: deployment.containerRuntime,
    limits: limitsOf(config),
    gpus: gpuWish(config),
    graceMs: scaling.responseGracePeriodSeconds * 1000,
    server: customRuntime && {
      entrypoint: entrypointOf(customRuntime, config.built),
      port: customRuntime.port,
    },
  };
}

/** An agent starts servers in the bundle with its own variables; this gives them the folder and variables of the image. */
const AS_IN_IMAGE = `
import json, os, sys
image = json.loads(sys.argv[1])
for name, value in image["variables"].items():
    os.environ.setdefault(name, value)
os.chdir(image["folder"])
os.execvp(sys.argv[2], sys.argv[2:])`;

/** In an image that was built from the app's own Dockerfile, as that says. */
function entrypointOf({ entrypoint }: CustomRuntimeConfig, built: BuiltImage | undefined): readonly string[] {
  if (!built?.start) return entrypoint;
  const { folder, variables, command } = built.start;
  const words = entrypoint.length > 0 ? entrypoint : command;
  return ["python3", "-I", "-c", AS_IN_IMAGE, JSON.stringify({ folder, variables }), ...words];
}

/** What an app's processes may use: what its configuration names is hard. */
export function limitsOf({ named, hardware }: AppConfig): Limits {
  const { cpu, memoryGb } = named;
  const memoryBytes = memoryGb === null ? null : Math.round(memoryGb * 1e9);
  return { memoryBytes, cpus: cpu, cpuShare: hardware.cpu };
}

/** How long a serving version keeps its template without a replica. A pod or an actor that has a GPU is never kept. */
export function templateKeepMs(config: AppConfig, { reserves }: Pick<Engine, "reserves">): number {
  if (!reserves) return config.scaling.templateKeepSeconds * 1000;
  const seconds = gpuWish(config) === null ? config.named.templateKeepSeconds : 0;
  return (seconds ?? 0) * 1000;
}

/** The GPUs that each replica of an app asks for; null for none. */
export function gpuWish({ hardware: { compute, gpuCount, gpuMemoryGb = null } }: AppConfig): GpuWish | null {
  const models = compute.filter(isGpu);
  const memoryBytes = gpuMemoryGb === null ? null : Math.round(gpuMemoryGb * 1e9);
  if (gpuCount === 0 || models.length === 0) return null;
  const mayUseCpu = models.length < compute.length;
  return { models, count: gpuCount, memoryBytes, ...(mayUseCpu && { mayUseCpu }) };
}

/** The environment variables of an app's processes, with their `own` ones. */
export function appVariables(app: App, own: Record<string, string>, secrets: SecretMap) {
  return { APP_NAME: app.name, PROJECT_ID: app.projectId, ...own, ...secrets };
}
