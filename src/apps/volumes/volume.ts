import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { Readable } from "node:stream";
import { lstat, mkdir, namesIn, open, readlink, rename, unlink, withHandle } from "../../kit/files.ts";
import type { Trash } from "../../kit/remove-tree.ts";
import { badPath, MAX_ENTRIES } from "./volume-files.ts";
import type { ByteSpan, OpenFile, SizeChange, VolumeEntry, VolumeFiles, VolumePath } from "./volume-files.ts";
import { AppError } from "../../model/errors.ts";

/** Files whose facts are looked up at the same time. */
const AT_ONCE = 64;
/** Names that are read in one go. */
const NAMES_AT_ONCE = 1_000;
const READ_BYTES = 256 * 1024;

/** A project's persistent storage, where its files belong to the service's own user. */
export class Volume implements VolumeFiles {
  /** Its real path: no part of it is a link. */
  readonly #root: string;
  readonly #trash: Trash;
  readonly #maxEntries: number;

  constructor(root: string, trash: Trash, maxEntries = MAX_ENTRIES) {
    this.#root = root;
    this.#trash = trash;
    this.#maxEntries = maxEntries;
  }

  async list(path: VolumePath): Promise<VolumeEntry[]> {
    const folder = await openInside(this.#root, path, constants.O_DIRECTORY).catch(absent);
    if (!folder) return [];
    try {
      const names = (await this.#names(folder)).toSorted();
      const entries: VolumeEntry[] = [];
      for (let first = 0; first < names.length; first += AT_ONCE) {
        const some = names.slice(first, first + AT_ONCE);
        const found = await Promise.all(some.map((name) => this.#entry(folder, [...path, name], name)));
        entries.push(...found.filter((entry) => entry !== null));
      }
      return entries;
    } catch (error) {
      throw volumeError(error);
    } finally {
      await folder.close();
    }
  }

  async openFile(path: VolumePath): Promise<OpenFile> {
    const handle = await openInside(this.#root, path).catch(refused);
    const stats = await handle.stat({ bigint: true });
    if (stats.isFile()) {
      return {
        sizeBytes: Number(stats.size),
        modifiedNs: stats.mtimeNs,
        bytes: (span) => bytesOf(handle, span),
        close: () => handle.close(),
      };
    }
    await handle.close();
    throw badPath("is not a file");
  }

  async #sizeOf(path: VolumePath): Promise<number | null> {
    const handle = await openInside(this.#root, path).catch(absent);
    const stats = handle && (await withHandle(handle, () => handle.stat()));
    return stats?.isFile() ? stats.size : null;
  }

  async put(source: string, path: VolumePath): Promise<SizeChange> {
    const beforeBytes = await this.#sizeOf(path);
    const folder = await makeFolder(this.#root, path.slice(0, -1)).catch(refused);
    await changeIn(folder, path, (entry) => rename(source, entry));
    return { beforeBytes, afterBytes: await this.#sizeOf(path) };
  }

  async removeFile(path: VolumePath): Promise<SizeChange> {
    const beforeBytes = await this.#sizeOf(path);
    await this.#inParent(path, async (entry) => {
      if ((await lstat(entry)).isDirectory()) throw badPath("is a folder: end the path with /");
      await unlink(entry);
    });
    return { beforeBytes, afterBytes: null };
  }

  async removeFolder(path: VolumePath): Promise<void> {
    const target = await this.#trash.freePath();
    await this.#inParent(path, async (entry) => {
      if (!(await lstat(entry)).isDirectory()) throw badPath("is not a folder");
      await rename(entry, target);
    });
    void this.#trash.empty();
  }

  async #names(folder: FileHandle): Promise<string[]> {
    const names: string[] = [];
    for await (const name of namesIn(inFolder(folder, "."), NAMES_AT_ONCE)) {
      if (names.length >= this.#maxEntries)
        throw badPath(`is a folder with more than ${this.#maxEntries} entries, too many to list`);
      names.push(name);
    }
    return names;
  }

  async #inParent(path: VolumePath, change: (entry: string) => Promise<void>): Promise<void> {
    const folder = await openInside(this.#root, path.slice(0, -1), constants.O_DIRECTORY).catch(refused);
    await changeIn(folder, path, change);
  }

  /** Null for what is gone meanwhile, and for what is neither a file nor a folder of this volume. */
  async #entry(folder: FileHandle, path: VolumePath, name: string): Promise<VolumeEntry | null> {
    const facts = await lstat(inFolder(folder, name)).catch(() => null);
    const stats = facts?.isSymbolicLink() ? await this.#linked(path) : facts;
    if (!stats || !(stats.isFile() || stats.isDirectory())) return null;
    const isFolder = stats.isDirectory();
    return { name, isFolder, sizeBytes: isFolder ? 0 : stats.size, modifiedAt: Math.round(stats.mtimeMs) };
  }

  async #linked(path: VolumePath) {
    const handle = await openInside(this.#root, path).catch(() => null);
    return handle && (await withHandle(handle, () => handle.stat()));
  }
}

/** Changes the last name of a path in its folder, durably, and closes the folder. */
async function changeIn(folder: FileHandle, path: VolumePath, change: (entry: string) => Promise<void>) {
  try {
    await change(inFolder(folder, path.at(-1) ?? ""));
    await folder.sync();
  } catch (error) {
    throw volumeError(error);
  } finally {
    await folder.close();
  }
}

/** For a `catch`: throws what the error means to a caller. */
export function refused(error: unknown): never {
  throw volumeError(error);
}

/** Null for what is not there; other failures are thrown. */
function absent(error: unknown): null {
  const known = volumeError(error);
  if ((known as { code?: string }).code === "not_found") return null;
  throw known;
}

/** Yields the bytes and closes the file; breaks off if there are fewer, for example when an app truncates the file. */
function bytesOf(handle: FileHandle, { first, last }: ByteSpan): Readable {
  let at = first;
  const readOn = async (stream: Readable): Promise<void> => {
    const size = Math.min(READ_BYTES, last - at + 1);
    if (size <= 0) {
      stream.push(null);
      return;
    }
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(size), 0, size, at);
    if (bytesRead === 0) throw new Error("the file became shorter while it was read");
    at += bytesRead;
    stream.push(buffer.subarray(0, bytesRead));
  };
  const stream = new Readable({
    read() {
      readOn(this).catch((error: Error) => this.destroy(error));
    },
  });
  return stream.once("close", () => void handle.close());
}

const { O_RDONLY, O_DIRECTORY, O_NONBLOCK } = constants;
/** Finds without opening; Node does not name it. */
const O_PATH = 0o10000000;
/** Others may read, so that apps can as any user. */
const FOLDER_MODE = 0o755;

/** No link leads out of the volume, though an app may make some meanwhile: what is found is reached by its descriptor. */
async function openInside(root: string, path: VolumePath, flags = O_RDONLY): Promise<FileHandle> {
  return await openReal(root, [root, ...path].join("/"), flags);
}

/** A folder inside the volume; those missing on the way to it are made. */
async function makeFolder(root: string, path: VolumePath): Promise<FileHandle> {
  let folder = await openReal(root, root, O_DIRECTORY);
  for (const name of path) {
    try {
      const target = inFolder(folder, name);
      await mkdir(target, FOLDER_MODE).catch(unlessThere);
      const next = await openReal(root, target, O_DIRECTORY);
      await folder.close();
      folder = next;
    } catch (error) {
      await folder.close();
      throw error;
    }
  }
  return folder;
}

/** The address of something in a folder that is open. */
function inFolder({ fd }: FileHandle, name: string): string {
  return `/proc/self/fd/${fd}/${name}`;
}

/** What the file system's complaints mean to a caller; anything else is an error of ours. */
export function volumeError(error: unknown): unknown {
  const { code = "" } = error as NodeJS.ErrnoException;
  if (["ENOENT", "ENOTDIR", "ELOOP", "EACCES"].includes(code))
    return new AppError("not_found", { message: "The volume has no such file or folder." }, error);
  if (["EISDIR", "ENOTEMPTY", "EEXIST"].includes(code)) return badPath("is a folder");
  if (code === "ENAMETOOLONG") return badPath("is too long");
  if (code === "ENXIO") return badPath("is not a file");
  if (["ENOSPC", "EDQUOT", "EROFS"].includes(code)) return new AppError("storage_unavailable", {}, error);
  return error;
}

/** Found first and opened when its real path is known: to open a pipe or a device outside would do something there. */
async function openReal(root: string, target: string, flags: number): Promise<FileHandle> {
  return await withHandle(await open(target, O_PATH), async ({ fd }) => {
    const self = `/proc/self/fd/${fd}`;
    const real = await readlink(self);
    // Without waiting: an app may have put a pipe there.
    if (real === root || real.startsWith(`${root}/`)) return await open(self, flags | O_NONBLOCK);
    // As if it did not exist: a caller learns nothing of what is outside.
    throw Object.assign(new Error("outside the volume"), { code: "ENOENT" });
  });
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
