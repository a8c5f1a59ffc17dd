import path from "node:path";
import { lstat, namesIn, readFile } from "../../kit/files.ts";
import type { BuildSite } from "./site.ts";

const LITERAL = "/persistent-storage";
/** What people write code and settings in. */
const TEXTS = /\.(?:py|sh|js|mjs|ts|toml|ya?ml|json|cfg|ini|txt)$/;
/** Of a bundle: whoever names the path does so early, and nobody waits for a look at all the rest. */
const MAX_FILES = 2_000;
const MAX_FILE_BYTES = 256 * 1024;
const NAMES_AT_ONCE = 32;

/** Warns of files that name the path by which the hosted original shows storage, where walls cannot put it there. */
export async function warnOfStoragePath({ bundleDir, walls, say, signal }: BuildSite): Promise<void> {
  if (walls?.level === "userns" || walls?.level === "uid") return;
  const file = await firstToNameIt(bundleDir, signal);
  if (file === null) return;
  say(
    `warning: ${file} names ${LITERAL}, which is not there on this host: use the path in the variable PERSISTENT_STORAGE`,
    "stderr",
  );
}

async function firstToNameIt(bundleDir: string, signal: AbortSignal): Promise<string | null> {
  const folders = [bundleDir];
  let count = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for await (const name of namesIn(folder, NAMES_AT_ONCE)) {
      signal.throwIfAborted();
      const place = path.join(folder, name);
      const found = await lstat(place);
      if (found.isDirectory()) folders.push(place);
      if (++count > MAX_FILES) return null;
      if (!found.isFile() || found.size > MAX_FILE_BYTES || !TEXTS.test(name)) continue;
      if ((await readFile(place, "latin1")).includes(LITERAL)) return path.relative(bundleDir, place);
    }
  }
  return null;
}
