import path from "node:path";
import { pythonFor } from "../../host/host-pythons.ts";
import { unkept } from "../../host/walls/network.ts";
import type { PythonWish } from "../../model/app-config.ts";
import type { InitFailure, Workload } from "../engine.ts";
import { foldersOf } from "./folders.ts";
import type { ProcessHost } from "./host.ts";
import { missingVersion, notEnforced } from "./what-is-missing.ts";

/** What an app's processes run on, or why they may not run here. Later where the host has to be searched for it. */
export function appInterpreter(
  { python: own, dataDir, network }: Pick<ProcessHost, "python" | "dataDir" | "network">,
  workload: Workload,
): string | Promise<string | InitFailure> {
  const gap = unkept(workload.network, network);
  if (gap?.isRefused) return Promise.resolve(notEnforced(gap.message));
  const { environment } = foldersOf(workload, dataDir);
  if (environment !== null) return path.join(environment, "bin", "python");
  return workload.python === null ? own : findVersion(workload.python, own);
}

async function findVersion(wish: PythonWish, own: string): Promise<string | InitFailure> {
  const found = await pythonFor(wish, own, process.env);
  return found?.path ?? missingVersion(wish.version);
}
