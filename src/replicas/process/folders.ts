import type { AppFolders } from "../../host/app-environment.ts";
import { artifactFolder, storageFolder } from "../../host/artifacts.ts";
import type { Workload } from "../engine.ts";

/** Where what a workload names is on this machine. */
export type WorkloadFolders = AppFolders & { readonly bundle: string };

/** Finds what a workload names below the data directory. */
export function foldersOf({ bundle, environment, projectId }: Workload, dataDir: string): WorkloadFolders {
  return {
    bundle: artifactFolder(bundle, dataDir),
    environment: environment === null ? null : artifactFolder(environment, dataDir),
    storage: storageFolder(projectId, dataDir),
  };
}
