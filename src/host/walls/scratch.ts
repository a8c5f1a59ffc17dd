import { mkdirSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";

/** Makes a folder for one seat's processes alone: their home, and where they keep temporary files. */
export function makeScratch(dataDir: string): string {
  const all = path.join(dataDir, "scratch");
  mkdirSync(all, { recursive: true, mode: 0o700 });
  return mkdtempSync(path.join(all, "s-"));
}

/** Removes it, once the seat's processes have ended. What cannot be removed stays until the next start. */
export async function removeScratch(scratch: string): Promise<void> {
  await rm(scratch, { recursive: true, force: true }).catch(() => {});
}

/** Removes what a service that was killed has left. */
export async function clearScratch(dataDir: string): Promise<void> {
  await rm(path.join(dataDir, "scratch"), { recursive: true, force: true });
}
