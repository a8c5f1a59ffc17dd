import { lstat, opendir } from "node:fs/promises";
import path from "node:path";

/** Deeper folders are not looked into: no program needs them, and an app decides how deep its own are. */
const MAX_DEPTH = 64;
const BLOCK_BYTES = 512;

/** The space that a folder takes on its disk, with all in it. Links are not followed. Stops as soon as it is above `enough`. */
export async function folderBytes(folder: string, enough: number): Promise<number> {
  let bytes = 0;
  const waiting: { readonly at: string; readonly depth: number }[] = [{ at: folder, depth: 0 }];
  for (let next = waiting.pop(); next && bytes <= enough; next = waiting.pop()) {
    const { at, depth } = next;
    try {
      for await (const entry of await opendir(at)) {
        const name = path.join(at, entry.name);
        bytes += await ownBytes(name);
        if (bytes > enough) break;
        if (entry.isDirectory() && depth < MAX_DEPTH) waiting.push({ at: name, depth: depth + 1 });
      }
    } catch {
      // It was removed meanwhile, or the app has closed it to everybody.
    }
  }
  return bytes;
}

async function ownBytes(name: string): Promise<number> {
  try {
    return (await lstat(name)).blocks * BLOCK_BYTES;
  } catch {
    return 0; // It was removed meanwhile.
  }
}
