import { constants } from "node:fs";
import type { BigIntStats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { lstat, namesIn, rename, unlink } from "../../kit/files.ts";
import { inFolder, makeFolder, openInside, volumeError } from "./inside.ts";
import { badPath } from "./volume-path.ts";
import type { VolumePath } from "./volume-path.ts";

/** Something in a folder. */
export type VolumeEntry = {
  readonly name: string;
  readonly isFolder: boolean;
  readonly sizeBytes: number;
  /** Epoch milliseconds. */
  readonly modifiedAt: number;
};

/** A file that is open for reading; whoever gets it closes it. */
export type OpenFile = { readonly handle: FileHandle; readonly stats: BigIntStats };

/** Files whose facts are looked up at the same time. */
const AT_ONCE = 64;
/** An app may make files without end; all of a list is in memory, and sorted in one go. */
const MAX_ENTRIES = 100_000;
/** Names that are read in one go. */
const NAMES_AT_ONCE = 1_000;

/** A project's persistent storage. */
export class Volume {
  /** Its real path: no part of it is a link. */
  readonly #root: string;
  readonly #maxEntries: number;

  constructor(root: string, maxEntries = MAX_ENTRIES) {
    this.#root = root;
    this.#maxEntries = maxEntries;
  }

  /** What a folder holds, by name; nothing where there is no such folder. Throws `bad_request` if that is too much. */
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

  /** Opens a file; throws `not_found`, and `bad_request` for what is not a file. */
  async openFile(path: VolumePath): Promise<OpenFile> {
    const handle = await openInside(this.#root, path).catch(refused);
    const stats = await handle.stat({ bigint: true });
    if (stats.isFile()) return { handle, stats };
    await handle.close();
    throw badPath("is not a file");
  }

  /** How large a file is; null where there is none. */
  async sizeOf(path: VolumePath): Promise<number | null> {
    const handle = await openInside(this.#root, path).catch(absent);
    if (!handle) return null;
    try {
      const stats = await handle.stat();
      return stats.isFile() ? stats.size : null;
    } finally {
      await handle.close();
    }
  }

  /** Moves a file from elsewhere on the same disk into its place, in one step that survives a power cut. */
  async put(source: string, path: VolumePath): Promise<void> {
    const folder = await makeFolder(this.#root, path.slice(0, -1)).catch(refused);
    try {
      await rename(source, inFolder(folder, path.at(-1) ?? ""));
      await folder.sync();
    } catch (error) {
      throw volumeError(error);
    } finally {
      await folder.close();
    }
  }

  /** Removes a file, or a link as such. */
  async removeFile(path: VolumePath): Promise<void> {
    await this.#inParent(path, async (entry) => {
      if ((await lstat(entry)).isDirectory()) throw badPath("is a folder: end the path with /");
      await unlink(entry);
    });
  }

  /** Takes a folder out of the volume in one step, to where it can be removed at leisure. */
  async moveFolder(path: VolumePath, target: string): Promise<void> {
    await this.#inParent(path, async (entry) => {
      if (!(await lstat(entry)).isDirectory()) throw badPath("is not a folder");
      await rename(entry, target);
    });
  }

  async #names(folder: FileHandle): Promise<string[]> {
    const names: string[] = [];
    for await (const name of namesIn(inFolder(folder, "."), NAMES_AT_ONCE)) {
      if (names.length >= this.#maxEntries) {
        throw badPath(`is a folder with more than ${this.#maxEntries} entries, too many to list`);
      }
      names.push(name);
    }
    return names;
  }

  async #inParent(path: VolumePath, change: (entry: string) => Promise<void>): Promise<void> {
    const folder = await openInside(this.#root, path.slice(0, -1), constants.O_DIRECTORY).catch(refused);
    try {
      await change(inFolder(folder, path.at(-1) ?? ""));
      await folder.sync();
    } catch (error) {
      throw volumeError(error);
    } finally {
      await folder.close();
    }
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
    try {
      return handle && (await handle.stat());
    } finally {
      await handle?.close();
    }
  }
}

function refused(error: unknown): never {
  throw volumeError(error);
}

/** Null for what is not there; other failures are thrown. */
function absent(error: unknown): null {
  const known = volumeError(error);
  if ((known as { code?: string }).code === "not_found") return null;
  throw known;
}
