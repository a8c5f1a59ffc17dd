import * as fs from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { constants } from "node:fs";
import { type Clock, systemClock, withTimeout } from "./clock.ts";

/** The size of Node's thread pool, 4 unless set; with 8 nothing here was faster. */
const THREADS = Number(process.env["UV_THREADPOOL_SIZE"]) || 4;

/**
 * The process's file calls at once: each holds one of Node's few threads, on a hanging disk for as long as it hangs. The
 * other half stays free to hash passwords and resolve names.
 */
export const FILE_CALLS_AT_ONCE = Math.max(1, Math.floor(THREADS / 2));

let underWay = 0;
const waiting: (() => void)[] = [];

/** Makes a file call as soon as there is room for it, first come, first served. */
export async function fileCall<Result>(call: () => Promise<Result>): Promise<Result> {
  if (underWay < FILE_CALLS_AT_ONCE) underWay += 1;
  // A finished call passes its place on.
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await call();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else underWay -= 1;
  }
}

/** The calls of `node:fs/promises`, so many at a time. */
export const chmod = inTurn(fs.chmod);
export const copyFile = inTurn(fs.copyFile);
export const cp = inTurn(fs.cp);
export const lchown = inTurn(fs.lchown);
export const lstat = inTurn(fs.lstat);
export const mkdir = inTurn(fs.mkdir);
export const readFile = inTurn(fs.readFile);
export const readdir = inTurn(fs.readdir);
export const readlink = inTurn(fs.readlink);
export const realpath = inTurn(fs.realpath);
export const rename = inTurn(fs.rename);
export const rmdir = inTurn(fs.rmdir);
export const stat = inTurn(fs.stat);
export const statfs = inTurn(fs.statfs);
export const symlink = inTurn(fs.symlink);
export const unlink = inTurn(fs.unlink);
export const utimes = inTurn(fs.utimes);
export const writeFile = inTurn(fs.writeFile);

const HANDLE_CALLS = [
  ...(["read", "write", "writev", "writeFile", "close"] as const),
  ...(["stat", "sync", "chmod", "chown", "utimes"] as const),
];

/** Opens a file whose own calls take their turn too, those of its streams included. */
export async function open(...terms: Parameters<typeof fs.open>): Promise<FileHandle> {
  const handle = await fileCall(() => fs.open(...terms));
  for (const name of HANDLE_CALLS) {
    const call = handle[name].bind(handle) as (...values: unknown[]) => Promise<unknown>;
    Object.defineProperty(handle, name, { value: inTurn(call) });
  }
  return handle;
}

/** The names in a folder, read so many at a time. */
export async function* namesIn(folder: string, atOnce: number): AsyncGenerator<string, void, void> {
  for await (const { name } of entriesIn(Buffer.from(folder), atOnce)) yield name.toString();
}

/** The entries of a folder, with names as bytes: not every one is UTF-8. */
export async function* entriesIn(
  folder: Buffer,
  bufferSize = 32,
): AsyncGenerator<{ readonly name: Buffer; readonly isFolder: boolean }, void, void> {
  // Node's types know only of names as text.
  const options = { encoding: "buffer" as "utf8", bufferSize };
  const entries = await fileCall(() => fs.opendir(folder as unknown as string, options));
  try {
    for (;;) {
      const entry = await fileCall(() => entries.read());
      if (!entry) return;
      yield { name: entry.name as unknown as Buffer, isFolder: entry.isDirectory() };
    }
  } finally {
    await fileCall(() => entries.close());
  }
}

/** Writes each chunk as it arrives; Node's own way would hold a thread for all of them. */
export async function writeChunks(file: FileHandle, chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of chunks) await writeAll(file, chunk);
}

/** Does the work with an open file or folder, and closes it in any case. */
export async function withHandle<Result>(
  handle: FileHandle,
  work: (handle: FileHandle) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(handle);
  } finally {
    await handle.close();
  }
}

/** Removes a file, or with `recursive` everything below it, one by one; Node's own way would take all threads. */
export async function rm(
  target: string,
  { force = false, recursive = false }: { readonly force?: boolean; readonly recursive?: boolean } = {},
): Promise<void> {
  if (!recursive) return await fileCall(() => fs.rm(target, { force }));
  if (!force) await lstat(target);
  await removeAll(Buffer.from(target));
}

/** By their bytes: not every name is UTF-8. */
async function removeAll(target: Buffer): Promise<void> {
  const facts = await lstat(target).catch(absent);
  if (!facts?.isDirectory()) {
    if (facts) await unlink(target).catch(absent);
    return;
  }
  for (const name of (await readdir(target, { encoding: "buffer" }).catch(absent)) ?? [])
    await removeAll(Buffer.concat([target, Buffer.from("/"), name]));
  await rmdir(target).catch(absent);
}

/** For `catch`: null if there is no such file or folder; throws any other error. */
export const absent = nullFor("ENOENT");

/** For `catch`: gives null for these errors and throws any other. */
export function nullFor(...codes: readonly string[]): (error: NodeJS.ErrnoException) => null {
  return (error) => {
    if (codes.includes(error.code ?? "")) return null;
    throw error;
  };
}

function inTurn<Call extends (...values: never[]) => Promise<unknown>>(call: Call): Call {
  return (async (...values: Parameters<Call>) => await fileCall(() => call(...values))) as Call;
}

/** If the disk takes longer, the last known state is used. */
const LOOK_MS = 1_000;
const MISSING: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "EACCES"]);

/** Tells whether an executable is still in place. */
export class ExecutableCheck {
  readonly path: string;
  readonly #clock: Pick<Clock, "after">;
  #isMissing = false;
  #looking: Promise<void> | null = null;

  constructor(path: string, clock: Pick<Clock, "after"> = systemClock) {
    this.path = path;
    this.#clock = clock;
  }

  /** One look at a time: on a hanging disk, each would hold one of the process's few file threads. */
  async isMissing(): Promise<boolean> {
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
    await withTimeout(LOOK_MS, this.#looking, this.#clock);
    return this.#isMissing;
  }

  async #look(): Promise<void> {
    try {
      await fileCall(() => fs.access(this.path, constants.X_OK));
      this.#isMissing = false;
    } catch (error) {
      this.#isMissing = MISSING.has((error as NodeJS.ErrnoException).code);
    }
  }
}

/**
 * Gives a folder and its content to a user, whose group has the same number. Follows no link. Leaves out files with
 * several names, because others may own them, and files that are deeper than a path can say.
 */
export async function chownTree(folder: string | Buffer, user: number): Promise<void> {
  const found = await lstat(folder).catch(nullFor("ENAMETOOLONG"));
  if (found === null || (found.isFile() && found.nlink > 1)) return;
  await lchown(folder, user, user);
  if (!found.isDirectory()) return;
  // By their bytes: not every name is UTF-8.
  const here = typeof folder === "string" ? Buffer.from(folder) : folder;
  for (const name of await readdir(folder, { encoding: "buffer" }))
    await chownTree(Buffer.concat([here, Buffer.from("/"), name]), user);
}

export type ByteSink = {
  write(bytes: Buffer): Promise<void>;
  /** Waits until everything is on disk, and closes. */
  finish(): Promise<void>;
  /** Closes it as it is. */
  abandon(): Promise<void>;
};

export type ByteReader = {
  /** Reads to the start of the buffer; resolves with the number of bytes, 0 at the end. */
  read(into: Buffer): Promise<number>;
  close(): Promise<void>;
};

/** A new file that only its owner can read. Throws if it exists. */
export async function createFile(path: string): Promise<ByteSink> {
  const file = await open(path, "wx", 0o600);
  return {
    write: (bytes) => writeAll(file, bytes),
    finish: async () => {
      await file.sync();
      await file.close();
    },
    abandon: () => file.close(),
  };
}

export async function openFile(path: string): Promise<ByteReader> {
  const file = await open(path, "r");
  return {
    read: async (into) => (await file.read(into, 0, into.length, null)).bytesRead,
    close: () => file.close(),
  };
}

/** Writes all bytes at the file's position. */
export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    at += (await file.write(bytes, at, bytes.length - at)).bytesWritten;
  }
}
