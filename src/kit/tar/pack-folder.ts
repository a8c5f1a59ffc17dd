import { constants, type Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { lstat, open, readdir, readlink } from "../files.ts";
import { isTooLong, staysInside } from "./unpack-folder.ts";
import { createZstdCompress } from "node:zlib";
import { TarWriter } from "./archive.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;

/** Something in a folder would not be the same when it is unpacked on another machine. */
export class Unpackable extends Error {
  constructor(name: string, why: string) {
    super(`${JSON.stringify(name.slice(0, 200))} ${why}`);
    this.name = "Unpackable";
  }
}

type PackOptions = {
  /** Names, relative to the folder, that are left out with their content. */
  readonly leftOut?: (name: string) => boolean;
  /** The apparent size of all files: one with holes takes more time and room than it has on disk. */
  readonly maxBytes?: number;
};

/** Errors because of the entry, not the system: it is special, closed to us, or being changed. */
const IN_THE_WAY: ReadonlySet<unknown> = new Set(
  "EACCES EPERM ENXIO ENODEV ELOOP ENOENT ENOTDIR EISDIR".split(" "),
);

type Packing = { readonly tar: TarWriter; readonly leftOut: (name: string) => boolean; leftBytes: number };

/**
 * A folder as a compressed archive, in pieces: the same bytes for the same files, names, rights and times. Follows no link,
 * even one that replaces a file meanwhile. Throws `Unpackable` for links out of the folder, special or unreadable files, names
 * that are not UTF-8, and too much content.
 */
export async function* packFolder(
  folder: string,
  { leftOut = () => false, maxBytes = Number.POSITIVE_INFINITY }: PackOptions = {},
): AsyncGenerator<Buffer, void, void> {
  yield* compressed(async (tar) => {
    const top = await open(folder, O_DIRECTORY | O_NOFOLLOW);
    await addAll({ tar, leftOut, leftBytes: maxBytes }, "", top);
  });
}

/** Adds the content of an open folder, and closes the folder. */
async function addAll(packing: Packing, folder: string, held: FileHandle): Promise<void> {
  try {
    const here = `/proc/self/fd/${held.fd}`;
    const names = (await readdir(here, { encoding: "buffer" })).map((bytes) => {
      const name = textOf(bytes);
      if (name === null) throw new Unpackable(folder + bytes.toString(), "has a name that is not UTF-8");
      return name;
    });
    for (const entry of names.toSorted()) {
      const name = folder + entry;
      if (packing.leftOut(name)) continue;
      if (isTooLong(name)) throw new Unpackable(name, "has a name that is too long");
      await add(packing, name, `${here}/${entry}`);
    }
  } finally {
    await held.close();
  }
}

async function add(packing: Packing, name: string, source: string): Promise<void> {
  try {
    await addOne(packing, name, source);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw IN_THE_WAY.has(code) ? new Unpackable(name, `cannot be read (${code})`) : error;
  }
}

async function addOne(packing: Packing, name: string, source: string): Promise<void> {
  const { tar } = packing;
  const found = await lstat(source);
  const modifiedAt = found.mtimeMs / 1000;
  if (found.isDirectory()) {
    await tar.addDirectory(name, found.mode, modifiedAt);
    await addAll(packing, `${name}/`, await open(source, O_DIRECTORY | O_NOFOLLOW));
  } else if (found.isSymbolicLink()) {
    const bytes = await readlink(source, { encoding: "buffer" });
    const target = textOf(bytes);
    if (target === null) throw new Unpackable(name, "is a link to a name that is not UTF-8");
    if (!staysInside(name, target, 0)) throw new Unpackable(name, `is a link to ${JSON.stringify(target)}`);
    await tar.addLink(name, target, modifiedAt);
  } else if (!found.isFile()) {
    throw new Unpackable(name, `is a ${kindOf(found)}`);
  } else {
    const file = await open(source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const held = await file.stat();
      if (!held.isFile()) throw new Unpackable(name, `is a ${kindOf(held)}`);
      packing.leftBytes -= held.size;
      if (packing.leftBytes < 0) throw new Unpackable(name, "makes the folder too large");
      await tar.addFile(name, file);
    } finally {
      await file.close();
    }
  }
}

function kindOf(found: Stats): string {
  if (found.isFIFO()) return "named pipe";
  if (found.isSocket()) return "socket";
  return found.isDirectory() ? "folder" : "device";
}

/** Null for bytes that are not UTF-8. */
function textOf(bytes: Buffer): string | null {
  const text = bytes.toString("utf8");
  return Buffer.from(text).equals(bytes) ? text : null;
}

/** A compressed archive, in pieces; `fill` adds its entries. If `fill` throws, the stream ends with that error. */
async function* compressed(fill: (tar: TarWriter) => Promise<void>): AsyncGenerator<Buffer, void, void> {
  const packed = createZstdCompress();
  const write = async (bytes: Buffer): Promise<void> => {
    // The writer reuses its buffer, so the bytes must have been taken by then.
    await new Promise<void>((resolve, reject) => {
      packed.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
  };
  const finish = async (): Promise<void> => void packed.end();
  const tar = new TarWriter({ write, finish, abandon: finish });
  const pack = async (): Promise<void> => {
    await fill(tar);
    await tar.finish();
  };
  pack().catch((error: unknown) => packed.destroy(error instanceof Error ? error : new Error(String(error))));
  yield* packed as AsyncIterable<Buffer>;
}
