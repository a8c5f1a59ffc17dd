import { chownSync, mkdirSync, mkdtempSync } from "node:fs";
import path from "node:path";
import { type Clock, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { removeTree, Trash } from "../../kit/remove-tree.ts";

/** Makes a folder for the home and temporary files of a seat or build. */
export function makeScratch(dataDir: string, user: number | null): string {
  const all = path.join(dataDir, "scratch");
  mkdirSync(all, { recursive: true, mode: 0o700 });
  const scratch = mkdtempSync(path.join(all, "s-"));
  if (user !== null) chownSync(scratch, user, user);
  return scratch;
}

/** How long a stop may wait for removals. */
const STOP_MS = 10_000;

const removals = new Set<Promise<void>>();

/** Removes it after its processes have ended. Files that cannot be removed stay until the next start. */
export async function removeScratch(scratch: string): Promise<void> {
  const removal = removeTree(scratch).catch(() => {});
  removals.add(removal);
  await removal;
  removals.delete(removal);
}

export async function scratchRemoved(clock: Clock): Promise<void> {
  await withTimeout(STOP_MS, Promise.all(removals), clock);
}

/** Removes leftovers of a killed service. Its apps may still be ending, so no links are followed. */
export async function clearScratch(dataDir: string, log: Log): Promise<void> {
  await new Trash(path.join(dataDir, "scratch"), log).empty();
}
