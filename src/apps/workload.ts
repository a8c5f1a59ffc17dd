import type { App, Version } from "../model/app.ts";
import { pythonWish } from "../model/app-config.ts";
import type { Workload } from "../replicas/engine.ts";
import { appVariables } from "./app-variables.ts";
import type { SecretMap } from "../model/app.ts";

/** What the replicas of a version run. */
export function workloadOf(app: App, version: Version, secrets: SecretMap): Workload {
  const { bundle, environment, config } = version;
  const { deployment, hardware, scaling, limits } = config;
  // Versions of earlier releases have named nothing.
  const { cpu = null, memoryGb = null } = config.named ?? {};
  return {
    projectId: app.projectId,
    bundle,
    environment,
    python: pythonWish(deployment),
    variables: appVariables(app, { BUILD_ID: version.id }, secrets),
    concurrency: scaling.replicaConcurrency,
    ignoreExtra: deployment.extraParams === "ignore",
    maxResultBytes: limits.maxResultBytes,
    maxChunkBytes: limits.maxChunkBytes,
    mayFork: deployment.fork === "auto",
    network: deployment.network,
    unixSockets: deployment.unixSockets,
    limits: {
      memoryBytes: memoryGb === null ? null : Math.round(memoryGb * 1e9),
      cpus: cpu,
      cpuShare: hardware.cpu,
    },
  };
}
