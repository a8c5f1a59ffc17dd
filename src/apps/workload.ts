import type { App, Version } from "../model/app.ts";
import type { Workload } from "../replicas/engine.ts";
import { appVariables } from "./app-variables.ts";
import type { SecretMap } from "../model/app.ts";

/** What the replicas of a version run. */
export function workloadOf(app: App, version: Version, secrets: SecretMap): Workload {
  const { bundle, environment, config } = version;
  const { deployment, scaling, limits, customRuntime } = config;
  return {
    projectId: app.projectId,
    bundle,
    environment,
    pythonVersion: deployment.pythonVersion,
    variables: appVariables(app, { BUILD_ID: version.id }, secrets),
    concurrency: scaling.replicaConcurrency,
    ignoreExtra: deployment.extraParams === "ignore",
    maxResultBytes: limits.maxResultBytes,
    maxChunkBytes: limits.maxChunkBytes,
    mayFork: deployment.fork === "auto",
    network: deployment.network,
    server: customRuntime && { entrypoint: customRuntime.entrypoint, port: customRuntime.port },
  };
}
