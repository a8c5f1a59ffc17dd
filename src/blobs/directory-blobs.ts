import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import path from "node:path";
import { mkdir, namesIn, open, readFile, rename, rm, stat, writeAll, writeFile } from "../kit/files.ts";
import { BLOB_HASH, BlobDamaged, BlobMissing, checkedHash, checkedNote } from "./blob-store.ts";
import { MAX_BLOB_BYTES, MAX_NOTE_BYTES, Passed, verified } from "./blob-store.ts";
import type { BlobContent, BlobStore, ByteRange, Reading, StoredBlob, StoredNote } from "./blob-store.ts";

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const CHUNK_BYTES = 1024 * 1024;
const NAMES_AT_ONCE = 256;
const ALL: ByteRange = { start: 0, end: Number.POSITIVE_INFINITY };
/** Only the service's user may enter. */
const FOLDER = { recursive: true, mode: 0o700 } as const;

/** Blobs as files `sha256/ab/ab12…` in a directory that nodes may share; unfinished ones are in `incoming`. */
export class DirectoryBlobs implements BlobStore {
  readonly kind = "directory";
  readonly place: string;

  private constructor(root: string) {
    this.place = root;
  }

  static async open(root: string): Promise<DirectoryBlobs> {
    const blobs = new DirectoryBlobs(root);
    for (const name of ["sha256", "incoming", "notes"]) await mkdir(path.join(root, name), FOLDER);
    return blobs;
  }

  async put(content: BlobContent, signal?: AbortSignal): Promise<StoredBlob> {
    const aside = this.#aside();
    const passed = new Passed();
    try {
      const file = await open(aside, "wx", 0o600);
      try {
        for await (const piece of content) {
          signal?.throwIfAborted();
          passed.take(piece);
          await writeAll(file, piece);
        }
        signal?.throwIfAborted();
        await file.sync();
      } finally {
        await file.close();
      }
      const hash = passed.hash();
      await this.#moveIn(aside, hash);
      return { hash, bytes: passed.bytes, putAt: Date.now() };
    } finally {
      await rm(aside, { force: true });
    }
  }

  async *open(hash: string, reading: Reading = {}): AsyncGenerator<Buffer, void, void> {
    const pieces = this.#read(checkedHash(hash), reading);
    yield* reading.range ? pieces : verified(pieces, hash, this.place, reading.bytes);
  }

  async has(hash: string): Promise<boolean> {
    return (await this.#found(this.#file(hash))) !== null;
  }

  async remove(hash: string, putBefore = Number.POSITIVE_INFINITY): Promise<boolean> {
    const file = this.#file(hash);
    if (((await this.#found(file))?.mtimeMs ?? 0) >= putBefore) return false;
    // Moved aside, then checked again: a concurrent put either renewed it before the move, or creates a new file.
    const aside = this.#aside();
    if (!(await renamed(file, aside))) return true;
    if (((await this.#found(aside))?.mtimeMs ?? 0) >= putBefore) {
      await rename(aside, file);
      return false;
    }
    await rm(aside, { force: true });
    return true;
  }

  async *list(prefix = ""): AsyncGenerator<StoredBlob, void, void> {
    const root = path.join(this.place, "sha256");
    for await (const folder of namesIn(root, NAMES_AT_ONCE)) {
      if (!/^[0-9a-f]{2}$/.test(folder) || !(folder.startsWith(prefix) || prefix.startsWith(folder)))
        continue;
      for await (const hash of namesIn(path.join(root, folder), NAMES_AT_ONCE)) {
        if (!BLOB_HASH.test(hash) || !hash.startsWith(prefix)) continue;
        const found = await this.#found(path.join(root, folder, hash));
        if (found) yield { hash, bytes: found.size, putAt: found.mtimeMs };
      }
    }
  }

  async tidy(before: number): Promise<void> {
    const incoming = path.join(this.place, "incoming");
    for await (const name of namesIn(incoming, NAMES_AT_ONCE)) {
      const file = path.join(incoming, name);
      const found = await this.#found(file);
      if (found && found.mtimeMs < before) await rm(file, { force: true });
    }
  }

  async writeNote(name: string, text: string): Promise<void> {
    const file = this.#note(name);
    await mkdir(path.dirname(file), FOLDER);
    const aside = this.#aside();
    await writeFile(aside, text.slice(0, MAX_NOTE_BYTES), { flag: "wx", mode: 0o600, flush: true });
    await rename(aside, file);
  }

  async readNote(name: string): Promise<string | null> {
    const file = this.#note(name);
    const found = await this.#found(file);
    if (!found || found.size > MAX_NOTE_BYTES) return null;
    return await readFile(file, "utf8").catch(absent);
  }

  async removeNote(name: string): Promise<void> {
    await rm(this.#note(name), { force: true });
  }

  async *listNotes(folder: string): AsyncGenerator<StoredNote, void, void> {
    const root = this.#note(folder);
    if ((await stat(root).catch(absent)) === null) return;
    for await (const name of namesIn(root, NAMES_AT_ONCE)) {
      const found = await this.#found(path.join(root, name));
      if (found) yield { name: `${folder}/${name}`, writtenAt: found.mtimeMs };
    }
  }

  close(): void {}

  async *#read(hash: string, { range = ALL, bytes, signal }: Reading): AsyncGenerator<Buffer, void, void> {
    const failed = (error: NodeJS.ErrnoException): null => {
      if (error.code === "ELOOP") throw new BlobDamaged(hash, this.place);
      return absent(error);
    };
    const file = await open(this.#file(hash), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(failed);
    if (!file) throw await this.#whyMissing(hash);
    try {
      // Other programs may write into the directory: a pipe or a device has no end.
      const found = await file.stat();
      if (!found.isFile() || found.size > MAX_BLOB_BYTES || found.size !== (bytes ?? found.size))
        throw new BlobDamaged(hash, this.place);
      for (let at = range.start; at < range.end;) {
        signal?.throwIfAborted();
        const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, range.end - at));
        const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
        if (bytesRead === 0) return;
        at += bytesRead;
        yield chunk.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  /** An unmounted directory is a different error than a missing blob: it may come back. */
  async #whyMissing(hash: string): Promise<Error> {
    const isThere = await stat(path.join(this.place, "sha256")).then(() => true, absent);
    return isThere ? new BlobMissing(hash, this.place) : new Error(`${this.place} is not there`);
  }

  /** Replaces an existing file, which is the same or damaged. */
  async #moveIn(aside: string, hash: string): Promise<void> {
    const file = this.#file(hash);
    const folder = path.dirname(file);
    const made = await mkdir(folder, FOLDER);
    await rename(aside, file);
    for (const changed of made === undefined ? [folder] : [folder, path.dirname(folder)]) {
      const handle = await open(changed);
      await handle.sync();
      await handle.close();
    }
  }

  #file(hash: string): string {
    return path.join(this.place, "sha256", checkedHash(hash).slice(0, 2), hash);
  }

  #note(name: string): string {
    return path.join(this.place, "notes", checkedNote(name));
  }

  #aside(): string {
    return path.join(this.place, "incoming", randomUUID());
  }

  async #found(file: string): Promise<Stats | null> {
    const found = await stat(file).catch(absent);
    return found?.isFile() ? found : null;
  }
}

async function renamed(from: string, to: string): Promise<boolean> {
  return await rename(from, to).then(
    () => true,
    (error: NodeJS.ErrnoException) => absent(error) !== null,
  );
}

function absent(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return null;
  throw error;
}
