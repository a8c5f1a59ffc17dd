import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { createZstdCompress } from "node:zlib";
import { lstat, open, readdir, readlink } from "../files.ts";
import { isTooLong, staysInside } from "./inside.ts";
import { TarWriter } from "./write.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;

/** Something in a folder cannot be packed so that it would be the same elsewhere. */
export class Unpackable extends Error {
  constructor(name: string, why: string) {
    super(`${JSON.stringify(name.slice(0, 200))} ${why}`);
    this.name = "Unpackable";
  }
}

/**
 * A folder as a compressed archive, in pieces: the same bytes for the same files, names, rights and times. No link is followed, even
 * one that takes a file's place meanwhile; one that leads out of the folder ends the stream with `Unpackable`. Names, from
 * the folder on, may be left out with all that is in them.
 */
export async function* packFolder(
  folder: string,
  leftOut: (name: string) => boolean = () => false,
): AsyncGenerator<Buffer, void, void> {
  const packed = createZstdCompress();
  const write = async (bytes: Buffer): Promise<void> => {
    // The writer fills the buffer anew: what was written has to be taken in by then.
    await new Promise<void>((resolve, reject) => {
      packed.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
  };
  const finish = async (): Promise<void> => void packed.end();
  const tar = new TarWriter({ write, finish, abandon: finish });
  const pack = async (): Promise<void> => {
    const top = await open(folder, O_DIRECTORY | O_NOFOLLOW);
    await addAll(tar, "", top, leftOut);
    await tar.finish();
  };
  pack().catch((error: unknown) => packed.destroy(error instanceof Error ? error : new Error(String(error))));
  yield* packed as AsyncIterable<Buffer>;
}

/** Adds what is in a folder, and closes that. */
async function addAll(
  tar: TarWriter,
  folder: string,
  held: FileHandle,
  leftOut: (name: string) => boolean,
): Promise<void> {
  try {
    const here = `/proc/self/fd/${held.fd}`;
    const names = (await readdir(here, { encoding: "buffer" })).map((bytes) => {
      const name = bytes.toString("utf8");
      if (!Buffer.from(name).equals(bytes))
        throw new Unpackable(folder + name, "has a name that is not UTF-8");
      return name;
    });
    for (const entry of names.toSorted()) {
      const name = folder + entry;
      if (leftOut(name)) continue;
      if (isTooLong(name)) throw new Unpackable(name, "has a name that is too long");
      await add(tar, name, `${here}/${entry}`, leftOut);
    }
  } finally {
    await held.close();
  }
}

async function add(
  tar: TarWriter,
  name: string,
  source: string,
  leftOut: (name: string) => boolean,
): Promise<void> {
  const found = await lstat(source);
  const modifiedAt = found.mtimeMs / 1000;
  if (found.isDirectory()) {
    await tar.addDirectory(name, found.mode, modifiedAt);
    await addAll(tar, `${name}/`, await open(source, O_DIRECTORY | O_NOFOLLOW), leftOut);
  } else if (found.isSymbolicLink()) {
    const target = await readlink(source);
    if (!staysInside(name, target, 0)) throw new Unpackable(name, `is a link to ${JSON.stringify(target)}`);
    await tar.addLink(name, target, modifiedAt);
  } else {
    const file = await open(source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      if (!(await file.stat()).isFile()) throw new Unpackable(name, "is neither a file, a folder nor a link");
      await tar.addFile(name, file);
    } finally {
      await file.close();
    }
  }
}
