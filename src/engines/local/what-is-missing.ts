import { existsSync, readlinkSync } from "node:fs";
import path from "node:path";
import type { InitFailure } from "../engine.ts";
import type { WorkloadFolders } from "./folders.ts";

const REPAIR = "run `millrace doctor --repair`, or deploy the app again";

/**
 * Why a version's processes cannot be started: its bundle, its packages or its Python is not there. Null when all
 * are. It is told to callers: folders are named from the data directory on.
 */
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
export function notEnforced(gap: string): InitFailure {
  return cannotStart(`${gap}; or set MILLRACE_NETWORK_UNENFORCED=warn to run it all the same`);
}

/** For a reason without a full stop. */
export function cannotStart(reason: string): InitFailure {
  const message = `The app cannot start: ${reason}.`;
  return { message, traceback: message };
}

function leadsTo(link: string): string {
  try {
    return ` (${readlinkSync(link)})`;
  } catch {
    return "";
  }
}
