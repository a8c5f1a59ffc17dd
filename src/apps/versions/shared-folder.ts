import { lstatSync, statSync } from "node:fs";
import path from "node:path";

/**
 * Whether other services may work in that folder of the data directory too: it is a link, or on another disk. One that
 * is neither is ours alone, because a directory has one service at a time.
 */
export function isSharedFolder(dataDir: string, name: string): boolean {
  const folder = path.join(dataDir, name);
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found !== undefined && (found.isSymbolicLink() || found.dev !== statSync(dataDir).dev);
}
