import { appPython, missingPython } from "../../host/app-python.ts";
import type { AppPython } from "../../host/app-python.ts";
import { unkept } from "../../host/walls/network.ts";
import type { InitFailure, Workload } from "../engine.ts";
import { foldersOf } from "./folders.ts";
import type { ProcessHost } from "./host.ts";
import { cannotStart, notEnforced } from "./what-is-missing.ts";

/** What an app's processes run on, or why they may not run here. Later where the host has to be searched for it. */
export function appInterpreter(
  { python: own, dataDir, network }: Pick<ProcessHost, "python" | "dataDir" | "network">,
  workload: Workload,
): AppPython | Promise<AppPython | InitFailure> {
  const gap = unkept(workload.network, network);
  if (gap?.isRefused) return Promise.resolve(notEnforced(gap.message));
  const { environment } = foldersOf(workload, dataDir);
  try {
    const python = appPython(environment, workload.python, { own, dataDir });
    return "program" in python ? python : later(python, workload);
  } catch (error) {
    return Promise.resolve(cannotStart((error as Error).message));
  }
}

async function later(
  python: Promise<AppPython | null>,
  workload: Workload,
): Promise<AppPython | InitFailure> {
  try {
    return (await python) ?? cannotStart(missingPython(workload.python?.version));
  } catch (error) {
    return cannotStart((error as Error).message);
  }
}
