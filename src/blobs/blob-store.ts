import { createHash } from "node:crypto";

/** The name of a blob: the SHA-256 of its bytes, in lowercase hex. */
export const BLOB_HASH = /^[0-9a-f]{64}$/;

/** More than any environment has, and within the limit of S3 for one object. */
export const MAX_BLOB_BYTES = 256 * 1024 ** 3;

/** The bytes of a blob, in pieces: a stream, or `[bytes]`. */
export type BlobContent = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Bytes from `start` on, up to and without `end`. */
export type ByteRange = { readonly start: number; readonly end: number };

/** How a blob is read. */
export type Reading = {
  /** Reads only a part, which cannot be verified against the hash. */
  readonly range?: ByteRange;
  /** The expected length: a blob of another length is damaged, and is read no further. */
  readonly bytes?: number | null;
  readonly signal?: AbortSignal;
};

/** A stored blob; `putAt` is when it was last put, in epoch milliseconds by the store's clock. */
export type StoredBlob = Readonly<{ hash: string; bytes: number; putAt: number }>;

/** A stored note; `writtenAt` is in epoch milliseconds by the store's clock. */
export type StoredNote = { readonly name: string; readonly writtenAt: number };

/** Large immutable data by its hash, shared by all nodes of an installation. */
export type BlobStore = {
  readonly kind: "directory" | "s3";
  /** For messages; without credentials. */
  readonly place: string;
  /** Stores the bytes durably. An existing blob counts as put again. */
  put(content: BlobContent, signal?: AbortSignal): Promise<StoredBlob>;
  /** Throws `BlobMissing`, or at the end `BlobDamaged`: do not use a whole blob before its end. */
  open(hash: string, reading?: Reading): AsyncGenerator<Buffer, void, void>;
  has(hash: string, signal?: AbortSignal): Promise<boolean>;
  /** Removes a blob, unless it was put at that time or later; returns whether it is gone. */
  remove(hash: string, putBefore?: number): Promise<boolean>;
  /** The blobs whose hash has this prefix, in no order; may include or miss blobs that are put or removed meanwhile. */
  list(prefix?: string): AsyncGenerator<StoredBlob, void, void>;
  /** Removes the remains of uploads that began before that time and did not finish. */
  tidy(before: number): Promise<void>;
  /** Writes a short text under a name. */
  writeNote(name: string, text: string): Promise<void>;
  /** The text of a note; null if there is none. */
  readNote(name: string): Promise<string | null>;
  removeNote(name: string): Promise<void>;
  listNotes(folder: string): AsyncGenerator<StoredNote, void, void>;
  close(): void;
};

/** The blob does not exist, or no longer. */
export class BlobMissing extends Error {
  constructor(hash: string, place: string) {
    super(`${place} has no blob ${hash}`);
    this.name = "BlobMissing";
  }
}

/** The bytes of a blob do not match its hash. */
export class BlobDamaged extends Error {
  constructor(hash: string, place: string) {
    super(`the blob ${hash} in ${place} is damaged`);
    this.name = "BlobDamaged";
  }
}

/** Throws for anything but a hash, because it becomes part of a path. */
export function checkedHash(hash: string): string {
  if (!BLOB_HASH.test(hash)) throw new Error("the name of a blob is no hash");
  return hash;
}

const NOTE_NAME = /^[a-z0-9-]{1,80}(?:\/[a-z0-9-]{1,80})?$/i;
export const MAX_NOTE_BYTES = 4096;

/** Throws for a name that could lead out of the folder of notes. */
export function checkedNote(name: string): string {
  if (!NOTE_NAME.test(name)) throw new Error("the name of a note is not valid");
  return name;
}

/** Verifies a whole blob while it is read; throws `BlobDamaged` when it is too long, and at its end for a wrong hash. */
export async function* verified(
  pieces: AsyncIterable<Buffer>,
  hash: string,
  place: string,
  bytes: number | null = null,
): AsyncGenerator<Buffer, void, void> {
  const digest = createHash("sha256");
  let left = bytes ?? MAX_BLOB_BYTES;
  for await (const piece of pieces) {
    left -= piece.length;
    if (left < 0) throw new BlobDamaged(hash, place);
    digest.update(piece);
    yield piece;
  }
  if (digest.digest("hex") !== hash) throw new BlobDamaged(hash, place);
}

/** Counts and hashes bytes; throws if they are more than a blob may have. */
export class Passed {
  readonly #digest = createHash("sha256");
  bytes = 0;

  take(piece: Uint8Array): void {
    this.bytes += piece.length;
    if (this.bytes > MAX_BLOB_BYTES) throw new Error(`a blob may have at most ${MAX_BLOB_BYTES} bytes`);
    this.#digest.update(piece);
  }

  /** The hash of all bytes; none may follow. */
  hash(): string {
    return this.#digest.digest("hex");
  }
}

/** Returns those of the hashes that are referenced. */
type Named = (hashes: readonly string[]) => Promise<readonly string[]>;

const AT_ONCE = 500;

/** Removes every unreferenced blob that was put before that time; returns how many. */
export async function collectBlobs(blobs: BlobStore, named: Named, putBefore: number, signal: AbortSignal) {
  let count = 0;
  let old: string[] = [];
  const collect = async (): Promise<void> => {
    if (old.length === 0) return;
    const wanted = new Set(await named(old));
    for (const hash of old.filter((each) => !wanted.has(each)))
      if (await blobs.remove(hash, putBefore)) count += 1;
    old = [];
  };
  for await (const { hash, putAt } of blobs.list()) {
    if (signal.aborted) return count;
    if (putAt < putBefore) old.push(hash);
    if (old.length >= AT_ONCE) await collect();
  }
  await collect();
  await blobs.tidy(putBefore);
  return count;
}

const FOLDER = "clock";
const NOTE = `${FOLDER}/now`;

/** The time by the store's clock. If this machine's clock is wrong, new blobs would look old. */
export async function storeTime(blobs: BlobStore): Promise<number> {
  await blobs.writeNote(NOTE, "");
  for await (const { name, writtenAt } of blobs.listNotes(FOLDER)) if (name === NOTE) return writtenAt;
  throw new Error(`${blobs.place} does not have what was just written there`);
}
