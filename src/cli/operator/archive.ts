import { constants } from "node:fs";
import { type FileHandle, lstat, mkdtemp, open, readdir, readlink, rm } from "node:fs/promises";
import { MASTER_KEY } from "../../identity/master-key.ts";
import { isPlain, isTooLong, staysInside } from "../../kit/tar/unpack-folder.ts";
import type { TarWriter } from "../../kit/tar/archive.ts";
import { DATABASE_FILE } from "../../store/upkeep/whole-database.ts";
import type { Readable } from "node:stream";
import { z } from "zod";
import { findInterpreter } from "../../host/interpreter.ts";
import { storageFolder } from "../../host/data-folders.ts";
import { ownerOf, StorageFolders } from "../../host/storage/folders.ts";
import { readBytes, readLine, StorageHelper } from "../../engines/programs/storage-helper.ts";
import { systemClock } from "../../kit/clock.ts";
import type { Settings } from "../../config/setting-keys.ts";
import { tmpdir } from "node:os";
import path from "node:path";
import { Home } from "../../engines/home.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;

/** The first entry of an archive. */
export type Manifest = {
  readonly format: typeof FORMAT;
  readonly version: string;
  readonly created_at: string;
  readonly store: "sqlite" | "postgres";
  readonly data_dir: string;
};

/** The format that this release writes and reads; 1 was that of versions before the first release. */
export const FORMAT = 2;
export const MANIFEST_NAME = "manifest.json";

/** Entries of the data directory that are not in an archive, or in another form. */
const LEFT_OUT = new RegExp(
  `^(?:${MASTER_KEY}|${DATABASE_FILE}(?:-wal|-shm|-journal)?|lock\\.db(?:-journal)?|lock\\.pid|directory-id|caches|pythons|scratch|storage/\\.staging|uploads|work|fetching|images)$`,
);
/** A link may point to anything of its project, which is two levels down. */
const ROOT_DEPTH = 2;

/** An app's packages come with a link to the interpreter they are for, which is the machine's. */
const INTERPRETER = /^environments\/[\w-]+\/bin\/python[\d.]*$/;

const STORAGE = /^storage\/(p-[a-z0-9]+)$/;
/** The entry is gone, or something else is in its place. */
const GONE = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENXIO", "EINVAL"]);

/** Entries that are not in the archive, or not as they were. */
export type Oddities = {
  readonly leftOut: string[];
  readonly changed: string[];
};

/** The entries of a data directory in an archive. */
export type Added = {
  readonly count: number;
  readonly names: readonly string[];
};

/** Adds the storage of a project whose files belong to a user of its own; gives how many entries that made. */
type AddStorage = (tar: TarWriter, projectId: string, odd: Oddities) => Promise<number>;

/**
 * Puts all of a data directory into an archive, except its database, key and locks. Apps may be changing it: it reads
 * each folder by its descriptor, and neither follows nor waits for a replacement of an entry.
 */
export async function addDataDirectory(
  tar: TarWriter,
  dataDir: string,
  odd: Oddities,
  addStorage: AddStorage,
): Promise<Added> {
  let count = 0;
  const names = new Set<string>();
  const add = async (name: string, source: string): Promise<void> => {
    if (isTooLong(name) || !(await addEntry(name, source))) {
      odd.leftOut.push(name);
      return;
    }
    count += 1;
    names.add(name.split("/", 1)[0] ?? name);
  };
  /** False for what cannot be in an archive. */
  const addEntry = async (name: string, source: string): Promise<boolean> => {
    const found = await lstat(source);
    const modifiedAt = found.mtimeMs / 1000;
    if (found.isDirectory()) {
      const folder = await open(source, O_DIRECTORY | O_NOFOLLOW);
      try {
        await tar.addDirectory(name, found.mode, modifiedAt);
        const projectId = STORAGE.exec(name)?.[1];
        const isOthers = projectId !== undefined && found.uid !== process.getuid?.();
        if (isOthers) count += await addStorage(tar, projectId, odd);
        else await addAll(name, folder);
      } finally {
        await folder.close();
      }
    } else if (found.isFile()) {
      const state = await addFile(tar, name, source);
      if (state === "changed") odd.changed.push(name);
      return state !== "odd";
    } else {
      const target = found.isSymbolicLink() ? await readlink(source) : null;
      if (target === null || !mayLead(name, target)) return false;
      await tar.addLink(name, target, modifiedAt);
    }
    return true;
  };
  const addAll = async (folder: string, { fd }: FileHandle): Promise<void> => {
    const here = `/proc/self/fd/${fd}`;
    for (const entry of (await readdir(here)).toSorted()) {
      const name = path.join(folder, entry);
      if (LEFT_OUT.test(name)) continue;
      await add(name, `${here}/${entry}`).catch((error: unknown) => {
        const { code = "" } = error as NodeJS.ErrnoException;
        // An app of the service's own user can close its files to both. That must not prevent the backup of all others.
        if (code === "EACCES" && folder !== "") odd.leftOut.push(name);
        // Apps remove and replace files meanwhile.
        else if (!GONE.has(code)) throw error;
      });
    }
  };
  const top = await open(dataDir, O_DIRECTORY);
  try {
    await addAll("", top);
  } finally {
    await top.close();
  }
  return { count, names: [...names] };
}

/** Adds one file, whole or as it changed while it was read; nothing if it is no file any more. */
async function addFile(tar: TarWriter, name: string, source: string): Promise<"whole" | "changed" | "odd"> {
  // Never through a link, nor from a pipe, that has just taken the file's place.
  const file = await open(source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    if (!(await file.stat()).isFile()) return "odd";
    return (await tar.addFile(name, file)) ? "whole" : "changed";
  } catch (error) {
    // Half an entry spoils the archive. Without its code, the error cannot pass for one of GONE.
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${name} could not be read: ${reason}`, { cause: error });
  } finally {
    await file.close();
  }
}

/** Whether an archive may hold that link. */
export function mayLead(name: string, target: string): boolean {
  return INTERPRETER.test(name) || staysInside(name, target, ROOT_DEPTH);
}

const MAX_LINE_BYTES = 128 * 1024;
const NAME = z.string().min(1).max(8_192);
const HEAD = { name: NAME, mode: z.int().min(0).max(0o7777), modified: z.number() };

/** A line of the helper about one entry of a volume. */
const RECORD = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("directory"), ...HEAD }),
  z.strictObject({ kind: z.literal("file"), ...HEAD, size: z.int().min(0) }),
  z.strictObject({ kind: z.literal("link"), ...HEAD, target: z.string().max(8_192) }),
  // Without a name: the volume itself, which its app can close.
  z.strictObject({ kind: z.literal("odd"), name: NAME.or(z.literal("")) }),
  z.strictObject({ kind: z.literal("over") }),
]);
const FILE_END = z.strictObject({ kind: z.literal("end"), changed: z.boolean() });

/** Adds the storage of projects that have users of their own, each read by a helper that is that user. */
export function storageArchiver(settings: Pick<Settings, "dataDir" | "uidRange" | "python">): AddStorage {
  return async (tar, projectId, odd) => {
    const { dataDir, uidRange } = settings;
    const python = (await findInterpreter(settings.python)).path;
    const { user } = ownerOf(storageFolder(projectId, dataDir));
    const folders = new StorageFolders(dataDir, uidRange, new Map([[projectId, user]]));
    const own = await mkdtemp(path.join(tmpdir(), "millrace-archive-"));
    const home = await Home.open(own);
    const helper = new StorageHelper({ python, dataDir, folders, home, clock: systemClock });
    try {
      const { rest } = await helper.stream(projectId, { operation: "archive" });
      return await copy(rest, tar, `storage/${projectId}`, odd);
    } finally {
      await helper.stop();
      await home.close();
      await rm(own, { recursive: true, force: true });
    }
  };
}

async function copy(source: Readable, tar: TarWriter, folder: string, odd: Oddities): Promise<number> {
  let count = 0;
  for (;;) {
    const record = RECORD.parse(await next(source));
    if (record.kind === "over") return count;
    if (record.kind === "odd" && record.name === "") {
      odd.leftOut.push(folder);
      continue;
    }
    if (!isPlain(record.name)) throw new Error(`invalid name: ${JSON.stringify(record.name)}`);
    const name = `${folder}/${record.name}`;
    const isBadLink = record.kind === "link" && !mayLead(name, record.target);
    if (isTooLong(name) || record.kind === "odd" || isBadLink) {
      if (record.kind === "file") await pass(source, record.size);
      odd.leftOut.push(name);
      continue;
    }
    const { mode, modified: modifiedAt } = record;
    if (record.kind === "directory") await tar.addDirectory(name, mode, modifiedAt);
    else if (record.kind === "link") await tar.addLink(name, record.target, modifiedAt);
    else {
      await tar.addPieces(name, { mode, sizeBytes: record.size, modifiedAt }, readBytes(source, record.size));
      if (FILE_END.parse(await next(source)).changed) odd.changed.push(name);
    }
    count += 1;
  }
}

async function pass(source: Readable, sizeBytes: number): Promise<void> {
  const pieces = readBytes(source, sizeBytes);
  while (!(await pieces.next()).done);
  FILE_END.parse(await next(source));
}

async function next(source: Readable): Promise<unknown> {
  const line = await readLine(source, MAX_LINE_BYTES);
  if (line === null) throw new Error("the helper that reads a project's storage ended too early");
  return JSON.parse(line);
}
