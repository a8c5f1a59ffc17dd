import { mkdirSync, mkdtempSync } from "node:fs";
import path from "node:path";
import { removeTree } from "../../kit/remove-tree.ts";

/** Makes a folder for one seat's or one build's processes: their home, and where they keep temporary files. */
export function makeScratch(dataDir: string): string {
  const all = path.join(dataDir, "scratch");
  mkdirSync(all, { recursive: true, mode: 0o700 });
  return mkdtempSync(path.join(all, "s-"));
}

/** Removes it, once the seat's processes have ended. What cannot be removed stays until the next start. */
export async function removeScratch(scratch: string): Promise<void> {
  await removeTree(scratch).catch(() => {});
}

/** Removes what a service that was killed has left. */
export async function clearScratch(dataDir: string): Promise<void> {
  await removeTree(path.join(dataDir, "scratch"));
}
