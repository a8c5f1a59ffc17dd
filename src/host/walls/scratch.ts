import { chownSync, mkdirSync, mkdtempSync } from "node:fs";
import path from "node:path";
import type { Log } from "../../kit/log.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { Trash } from "../../kit/trash.ts";

/** Makes a folder for one seat's or one build's processes: their home, and where they keep temporary files. */
export function makeScratch(dataDir: string, user: number | null): string {
  const all = path.join(dataDir, "scratch");
  mkdirSync(all, { recursive: true, mode: 0o700 });
  const scratch = mkdtempSync(path.join(all, "s-"));
  if (user !== null) chownSync(scratch, user, user);
  return scratch;
}

/** Removes it, once the seat's processes have ended. What cannot be removed stays until the next start. */
export async function removeScratch(scratch: string): Promise<void> {
  await removeTree(scratch).catch(() => {});
}

/** Removes what a service that was killed has left. Its apps may not be quite gone: nothing in there is followed. */
export async function clearScratch(dataDir: string, log: Log): Promise<void> {
  await new Trash(path.join(dataDir, "scratch"), log).empty();
}
