import path from "node:path";
import { pipeline } from "node:stream/promises";
import type { Readable } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { buffer } from "node:stream/consumers";
import { type ByteReader, chmod, mkdir, open, symlink, utimes, writeChunks } from "../files.ts";
import { BadTar, type TarEntry, type TarHeader, TarReader } from "./archive.ts";

/** Of all names and links, which are in memory until the end: five times those of the largest environments. */
const MAX_NAME_CHARS = 64 * 1024 * 1024;
/** Of an entry without its content: its name and its link may have three thousand bytes each. */
const MAX_HEAD_BYTES = 8 * 1024;
/** The reader's buffer, and zeros after the end. */
const SPARE_BYTES = 4 * 1024 * 1024;
/** Of the file that is returned instead of written. */
const MAX_GIVEN_BYTES = 64 * 1024;

/** How much may come out of an archive. */
export type UnpackLimits = {
  readonly maxEntries: number;
  readonly maxBytes: number;
  /** What the disk has room for. */
  readonly roomBytes?: number;
};

/** The disk has too little space for the archive's content. */
export class NoRoom extends Error {
  constructor(neededBytes: number, roomBytes: number) {
    super(`${neededBytes} bytes or more are needed on the disk, and ${Math.max(0, roomBytes)} are free`);
    this.name = "NoRoom";
  }
}

/**
 * Unpacks an archive of `packFolder` or an agent into an empty folder. The content of the file named `given` is returned
 * instead of written; null if there is none. Throws `BadTar` for anything else and beyond the limits, and `NoRoom` before the
 * disk is full. Trusts nothing in the archive, and writes nothing outside the folder.
 */
export async function unpackFolder(
  file: string,
  into: string,
  { maxEntries, maxBytes, roomBytes = Number.POSITIVE_INFINITY }: UnpackLimits,
  given: string | null = null,
): Promise<Buffer | null> {
  const opened = await open(file);
  const { buffer: start } = await opened.read(Buffer.alloc(2), 0, 2, 0);
  // Agents compress with gzip: few Pythons know zstd.
  const unpacked = isGzip(start) ? createGunzip() : createZstdDecompress();
  const flowing = pipeline(opened.createReadStream({ start: 0 }), unpacked);
  // The reader gets the error.
  flowing.catch(() => undefined);
  const tar = new TarReader(readerOf(unpacked, maxBytes + maxEntries * MAX_HEAD_BYTES + SPARE_BYTES));
  const names = new Set<string>();
  const links: TarHeader[] = [];
  const folders: TarHeader[] = [];
  let answer: Buffer | null = null;
  let [bytes, nameChars] = [0, 0];
  try {
    for await (const entry of tar.entries()) {
      bytes += entry.sizeBytes;
      nameChars += entry.name.length + entry.target.length;
      if (names.size >= maxEntries || bytes > maxBytes || nameChars > MAX_NAME_CHARS)
        throw new BadTar("it holds too much");
      // Checked before writing: a full disk would affect all apps.
      if (bytes > roomBytes) throw new NoRoom(bytes, roomBytes);
      const name = checkedName(entry, names);
      if (name === given) answer = await wholeOf(entry);
      else if (entry.kind === "file") await writeEntry(path.join(into, name), entry);
      else if (entry.kind === "link") links.push({ ...entry, name });
      else {
        await mkdir(path.join(into, name), { mode: 0o700 });
        folders.push({ ...entry, name });
      }
    }
  } finally {
    unpacked.destroy();
  }
  await finish(into, links, folders);
  return answer;
}

/** Whether an archive begins as gzip does. */
export function isGzip(start: Buffer): boolean {
  return start[0] === 0x1f && start[1] === 0x8b;
}

/** Links come last, so that no file is written through one; full folders get their rights and times. */
async function finish(into: string, links: TarHeader[], folders: TarHeader[]): Promise<void> {
  for (const { name, target } of links) {
    if (!staysInside(name, target, 0) || isTooLong(target))
      throw new BadTar(`the link ${JSON.stringify(name)} leads outside`);
    await symlink(target, path.join(into, name));
  }
  for (const { name, mode, modifiedAt } of folders.toReversed()) {
    const folder = path.join(into, name);
    await chmod(folder, mode);
    await utimes(folder, modifiedAt, modifiedAt);
  }
}

/**
 * Checks that an entry's name is new and in a folder that came before it, else throws `BadTar`: below a link, it could be
 * anywhere. `names` has the earlier ones, folders with a slash.
 */
function checkedName({ name: given, kind }: TarHeader, names: Set<string>): string {
  const isFolder = kind === "directory";
  const name = isFolder ? given.replace(/\/$/, "") : given;
  const above = name.slice(0, name.lastIndexOf("/") + 1);
  const wasThere = names.has(name) || names.has(`${name}/`);
  if (!isPlain(name) || isTooLong(name) || wasThere || (above !== "" && !names.has(above)))
    throw new BadTar(`an entry has the invalid name ${JSON.stringify(given.slice(0, 200))}`);
  names.add(isFolder ? `${name}/` : name);
  return name;
}

async function writeEntry(target: string, { content, mode, modifiedAt }: TarEntry): Promise<void> {
  const file = await open(target, "wx", mode | 0o600);
  try {
    await writeChunks(file, content);
    await file.chmod(mode);
    // Python compares it with what its compiled code says.
    await file.utimes(modifiedAt, modifiedAt);
  } finally {
    await file.close();
  }
}

async function wholeOf({ content, kind, sizeBytes }: TarEntry): Promise<Buffer> {
  if (kind !== "file" || sizeBytes > MAX_GIVEN_BYTES) throw new BadTar("it holds too much");
  return await buffer(content);
}

/** Heads count too: compressed, very large ones cost next to nothing. */
function readerOf(stream: Readable, maxBytes: number): ByteReader {
  const pieces = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let rest: Buffer = Buffer.alloc(0);
  let leftBytes = maxBytes;
  return {
    read: async (into) => {
      while (rest.length === 0) {
        const { done, value } = await pieces.next().catch((error: NodeJS.ErrnoException) => {
          const isCompression = error.errno !== undefined && error.code?.startsWith("Z");
          throw isCompression ? new BadTar("it is not compressed as it should be") : error;
        });
        if (done) return 0;
        rest = value;
        leftBytes -= value.length;
        if (leftBytes < 0) throw new BadTar("it holds too much");
      }
      const count = rest.copy(into);
      rest = rest.subarray(count);
      return count;
    },
    close: async () => void stream.destroy(),
  };
}

/** Of a name in an archive: a longer one may not fit below a directory, and each folder of its path is open meanwhile. */
const MAX_NAME_BYTES = 3_000;
const MAX_DEPTH = 500;

/** Whether a name is too long to be unpacked anywhere. */
export function isTooLong(name: string): boolean {
  return Buffer.byteLength(name) > MAX_NAME_BYTES || name.split("/").length > MAX_DEPTH;
}

/** Whether a name is a place below the folder that it is unpacked into. */
export function isPlain(name: string): boolean {
  return (
    !name.includes("\0") && name.split("/").every((step) => step !== "" && step !== "." && step !== "..")
  );
}

/** Whether a link stays that many levels below the root: its target goes up first, and never again after a name. */
export function staysInside(name: string, target: string, rootDepth: number): boolean {
  const depth = name.split("/").length - 1;
  const steps = target.split("/");
  if (target === "" || target.startsWith("/") || target.includes("\0")) return false;
  const ups = steps.findIndex((step) => step !== "..");
  const down = ups < 0 ? [] : steps.slice(ups);
  return depth - (ups < 0 ? steps.length : ups) >= rootDepth && !down.includes("..");
}
