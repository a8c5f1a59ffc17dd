import { chownSync, mkdirSync, mkdtempSync } from "node:fs";
import path from "node:path";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { removeTree, Trash } from "../../kit/remove-tree.ts";
import { withTimeout } from "../../kit/clock.ts";

/** Makes a folder for one seat's or one build's processes: their home, and where they keep temporary files. */
export function makeScratch(dataDir: string, user: number | null): string {
  const all = path.join(dataDir, "scratch");
  mkdirSync(all, { recursive: true, mode: 0o700 });
  const scratch = mkdtempSync(path.join(all, "s-"));
  if (user !== null) chownSync(scratch, user, user);
  return scratch;
}

/** A stop does not take longer than this for an app's sake: a million files take a while. */
const STOP_MS = 10_000;

const removals = new Set<Promise<void>>();

/** Removes it, once the seat's processes have ended. What cannot be removed stays until the next start. */
export async function removeScratch(scratch: string): Promise<void> {
  const removal = removeTree(scratch).catch(() => {});
  removals.add(removal);
  await removal;
  removals.delete(removal);
}

/** Waits for those that are being removed; nobody else waits for a replica's. */
export async function scratchRemoved(clock: Clock): Promise<void> {
  await withTimeout(STOP_MS, Promise.all(removals), clock);
}

/** Removes what a service that was killed has left. Its apps may not be quite gone: nothing in there is followed. */
export async function clearScratch(dataDir: string, log: Log): Promise<void> {
  await new Trash(path.join(dataDir, "scratch"), log).empty();
}
