import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const made = new Set<string>();

/** Makes a directory that is gone when the bench is. */
export function makeScratchDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "millrace-bench-"));
  made.add(dir);
  return dir;
}

/** Removes every directory made here; call it when nothing uses them any more. */
export function removeScratchDirs(): void {
  for (const dir of made) rmSync(dir, { recursive: true, force: true });
  made.clear();
}
