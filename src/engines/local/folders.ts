import type { AppFolders } from "../../host/app-environment.ts";
import { artifactFolders, storageFolder } from "../../host/data-folders.ts";
import type { Workload } from "../engine.ts";

/** Where what a workload names is on this machine. */
export type WorkloadFolders = AppFolders & { readonly bundle: string };

/** Finds what a workload names below the data directory. */
export function foldersOf(workload: Workload, dataDir: string): WorkloadFolders {
  return { ...artifactFolders(workload, dataDir), storage: storageFolder(workload.projectId, dataDir) };
}
