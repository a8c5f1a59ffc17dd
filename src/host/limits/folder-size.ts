import { constants } from "node:fs";
import { entriesIn, lstat, open } from "../../kit/files.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
/** An app decides how deep its folders are, and each that is open takes descriptors of the service. */
const MAX_DEPTH = 200;
const BLOCK_BYTES = 512;
/** What is empty counts too: a disk holds only so many files, and whoever has millions keeps us at it for minutes. */
const LEAST_BYTES = 4096;

/**
 * The space that a folder takes on its disk, with all in it, by whatever names. Links are not followed. Stops as soon as
 * it is above `enough`; folders that lie too deep to be measured count as more than that.
 */
export async function folderBytes(folder: string, enough: number): Promise<number> {
  return await bytesIn(Buffer.from(folder), enough, 0);
}

/** Holds no more names than one folder for each level: an app decides how many there are. */
async function bytesIn(place: Buffer, enough: number, depth: number): Promise<number> {
  if (depth > MAX_DEPTH) return Number.POSITIVE_INFINITY;
  // The first is the service's own, and may be a link to another disk.
  const flags = O_RDONLY | O_DIRECTORY | (depth === 0 ? 0 : O_NOFOLLOW);
  // It was removed meanwhile, or the app has closed it to everybody.
  const folder = await open(place, flags).catch(() => null);
  if (folder === null) return 0;
  let bytes = 0;
  try {
    const here = Buffer.from(`/proc/self/fd/${folder.fd}/`);
    for await (const { name, isFolder } of entriesIn(here)) {
      const inner = Buffer.concat([here, name]);
      bytes += await ownBytes(inner);
      if (isFolder && bytes <= enough) bytes += await bytesIn(inner, enough - bytes, depth + 1);
      if (bytes > enough) break;
    }
  } catch {
    // It was removed meanwhile.
  } finally {
    await folder.close();
  }
  return bytes;
}

async function ownBytes(place: Buffer): Promise<number> {
  try {
    return Math.max(LEAST_BYTES, (await lstat(place)).blocks * BLOCK_BYTES);
  } catch {
    return 0; // It was removed meanwhile.
  }
}
