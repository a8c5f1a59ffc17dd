import type { Limits } from "../host/limits/limits.ts";
import type { App, Version } from "../model/app.ts";
import { isGpu, pythonWish } from "../model/app-config.ts";
import type { AppConfig } from "../model/app-config.ts";
import type { Workload } from "../replicas/engine.ts";
import { appVariables } from "./app-variables.ts";
import type { SecretMap } from "../model/app.ts";

/** What the replicas of a version run. */
export function workloadOf(app: App, version: Version, secrets: SecretMap): Workload {
  const { id, appNumber, bundle, environment, config } = version;
  const { bundleBlob, environmentBlob, environmentTag } = version;
  const { deployment, scaling, limits, customRuntime } = config;
  return {
    version: { id, appNumber, bundleBlob, environmentBlob, environmentTag },
    projectId: app.projectId,
    bundle,
    environment,
    python: pythonWish(deployment),
    image: deployment.dockerBaseImageUrl,
    variables: appVariables(app, { BUILD_ID: id }, secrets),
    concurrency: scaling.replicaConcurrency,
    ignoreExtra: deployment.extraParams === "ignore",
    maxResultBytes: limits.maxResultBytes,
    maxChunkBytes: limits.maxChunkBytes,
    mayFork: deployment.fork === "auto",
    network: deployment.network,
    unixSockets: deployment.unixSockets,
    containerRuntime: deployment.containerRuntime,
    limits: limitsOf(config),
    cards: cardsOf(config),
    graceMs: scaling.responseGracePeriodSeconds * 1000,
    server: customRuntime && { entrypoint: customRuntime.entrypoint, port: customRuntime.port },
  };
}

/** What an app's processes may use: what its configuration names is hard. */
export function limitsOf({ named, hardware }: AppConfig): Limits {
  // Versions of earlier releases have named nothing.
  const { cpu = null, memoryGb = null } = named ?? {};
  const memoryBytes = memoryGb === null ? null : Math.round(memoryGb * 1e9);
  return { memoryBytes, cpus: cpu, cpuShare: hardware.cpu };
}

function cardsOf({ hardware: { compute, gpuCount } }: AppConfig): Workload["cards"] {
  const names = compute.filter(isGpu);
  return gpuCount > 0 && names.length > 0 ? { names, count: gpuCount } : null;
}
