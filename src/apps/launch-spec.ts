import path from "node:path";
import type { App, Version } from "../model/app.ts";
import type { LaunchSpec } from "../replicas/engine.ts";
import { appVariables } from "./app-variables.ts";
import type { SecretMap } from "./secrets.ts";

/** Where a version's processes are. */
export type Surroundings = {
  /** The project's persistent storage. */
  readonly storageDir: string;
  readonly secrets: SecretMap;
  /** How long a template is kept without a replica. */
  readonly templateKeepMs: number;
};

/** What a version's processes are started with. */
export function launchSpec(app: App, version: Version, around: Surroundings): LaunchSpec {
  const { environment, config } = version;
  const { deployment, scaling, limits } = config;
  const { storageDir, secrets, templateKeepMs } = around;
  return {
    versionId: version.id,
    owner: app.projectId,
    bundleDir: version.bundleDir,
    python: environment && path.join(environment, "bin", "python"),
    pythonVersion: deployment.pythonVersion,
    environment: appVariables(app, { storageDir, secrets, environment, own: { BUILD_ID: version.id } }),
    concurrency: scaling.replicaConcurrency,
    ignoreExtra: deployment.extraParams === "ignore",
    maxResultBytes: limits.maxResultBytes,
    maxChunkBytes: limits.maxChunkBytes,
    mayFork: deployment.fork === "auto",
    templateKeepMs,
  };
}
