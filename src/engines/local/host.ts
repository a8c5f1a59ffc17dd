import path from "node:path";
import type { AppLimits } from "../../host/limits/limits.ts";
import type { StorageFolders } from "../../host/storage/folders.ts";
import type { NetworkWall } from "../../host/walls/network.ts";
import type { WallLevel } from "../../host/walls/walls.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Ports } from "../server/ports.ts";
import type { AppFolders } from "../../host/app-environment.ts";
import { artifactFolders, storageFolder } from "../../host/data-folders.ts";
import { type InitFailure, type Workload, cannotStart } from "../engine.ts";
import { existsSync, readlinkSync } from "node:fs";

/** The machine, as its seats need it. */
export type ProcessHost = {
  /** The interpreter for apps that ask for no other. */
  readonly python: string;
  /** Where bundles, environments and storage are. */
  readonly dataDir: string;
  /** The level of the walls around apps; null for none. */
  readonly level: WallLevel | null;
  /** Additional files that apps may read. */
  readonly reads?: readonly string[];
  readonly limits?: AppLimits;
  readonly network: NetworkWall;
  readonly storage: Pick<StorageFolders, "userOf">;
  /** One set for all engines, or two servers would get the same port. */
  readonly ports: Ports;
  readonly clock: Clock;
};

export type WorkloadFolders = AppFolders & { readonly bundle: string };

export function foldersOf(workload: Workload, dataDir: string): WorkloadFolders {
  return { ...artifactFolders(workload, dataDir), storage: storageFolder(workload.projectId, dataDir) };
}

const REPAIR = "run `millrace doctor --repair`, or deploy the app again";

/** Why a version cannot start: a file is missing; null if all are there. Callers see it, so it names no absolute folders. */
export function whatIsMissing(
  python: string,
  { bundle, environment }: Pick<WorkloadFolders, "bundle" | "environment">,
): InitFailure | null {
  if (!existsSync(bundle)) {
    const name = bundle.split(path.sep).slice(-4).join("/");
    return cannotStart(`its bundle ${name} is missing: deploy the app again, or restore a backup`);
  }
  if (existsSync(python)) return null;
  if (environment === null)
    return cannotStart(`the interpreter ${python} is missing: install it, or set MILLRACE_PYTHON`);
  const name = `environments/${path.basename(environment)}`;
  if (!existsSync(environment)) return cannotStart(`its environment ${name} is missing: ${REPAIR}`);
  return cannotStart(`the interpreter of its environment ${name} is missing${leadsTo(python)}: ${REPAIR}`);
}

/** It was deployed where its `network` could be enforced, or under other settings. */
export function notEnforced(gap: string): string {
  return `${gap}; or set MILLRACE_NETWORK_UNENFORCED=warn to run it anyway`;
}

function leadsTo(link: string): string {
  try {
    return ` (${readlinkSync(link)})`;
  } catch {
    return "";
  }
}
