import path from "node:path";
import type { App, Version } from "../model/app.ts";
import type { LaunchSpec } from "../replicas/engine.ts";

/** What a version's processes are started with. `storageDir` is the project's persistent storage. */
export function launchSpec(app: App, version: Version, storageDir: string): LaunchSpec {
  const { deployment, scaling, limits } = version.config;
  return {
    versionId: version.id,
    bundleDir: version.bundleDir,
    environment: {
      APP_NAME: app.name,
      PROJECT_ID: app.projectId,
      BUILD_ID: version.id,
      PERSISTENT_STORAGE: storageDir,
      HF_HOME: path.join(storageDir, ".cache", "huggingface"),
    },
    concurrency: scaling.replicaConcurrency,
    ignoreExtra: deployment.extraParams === "ignore",
    maxResultBytes: limits.maxResultBytes,
    maxChunkBytes: limits.maxChunkBytes,
    mayFork: deployment.fork === "auto",
    templateKeepMs: scaling.templateKeepSeconds * 1000,
  };
}
