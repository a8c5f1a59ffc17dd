import { createHash } from "node:crypto";

/** What a blob is named by: the SHA-256 of its bytes, in lowercase hex. */
export const BLOB_HASH = /^[0-9a-f]{64}$/;

/** Of one blob: far beyond any environment, and within what S3 takes in one object. */
export const MAX_BLOB_BYTES = 256 * 1024 ** 3;

/** The bytes of a blob, in pieces: a stream, or `[bytes]`. */
export type BlobContent = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Bytes from `start` on, up to and without `end`. */
export type ByteRange = { readonly start: number; readonly end: number };

/** How a blob is read. */
export type Reading = {
  /** A part of it, which cannot be compared with its hash. */
  readonly range?: ByteRange;
  /** How long it is known to be: one of another length is damaged, and nothing of it is read beyond that. */
  readonly bytes?: number | null;
  readonly signal?: AbortSignal;
};

/** What a store tells of a blob. */
export type StoredBlob = {
  readonly hash: string;
  readonly bytes: number;
  /** When it was last put, in epoch milliseconds by the store's clock. */
  readonly putAt: number;
};

/** What a store tells of a note. */
export type StoredNote = { readonly name: string; readonly writtenAt: number };

/** What is large and never changes, by its hash. All nodes of an installation see the same. */
export type BlobStore = {
  readonly kind: "directory" | "s3";
  /** For messages; without credentials. */
  readonly place: string;
  /** Stores the bytes, and gives their hash. They are durable when it resolves; what is there already is put anew. */
  put(content: BlobContent, signal?: AbortSignal): Promise<StoredBlob>;
  /** A blob's bytes, or a part. Throws `BlobMissing`, or at the end `BlobDamaged`: use nothing of a whole one before. */
  open(hash: string, reading?: Reading): AsyncGenerator<Buffer, void, void>;
  has(hash: string, signal?: AbortSignal): Promise<boolean>;
  /** Removes a blob, unless it was put at that time or later; gives whether it is gone. */
  remove(hash: string, putBefore?: number): Promise<boolean>;
  /** Every blob whose hash begins so, in no order; what is put or removed meanwhile may be among them or not. */
  list(prefix?: string): AsyncGenerator<StoredBlob, void, void>;
  /** Removes what uploads left that were begun before that time and never ended. */
  tidy(before: number): Promise<void>;
  /** Writes a few words under a name that is no hash. */
  writeNote(name: string, text: string): Promise<void>;
  /** What was written under that name; null for nothing. */
  readNote(name: string): Promise<string | null>;
  removeNote(name: string): Promise<void>;
  /** Every note of a folder, with when it was last written, in epoch milliseconds by the store's clock. */
  listNotes(folder: string): AsyncGenerator<StoredNote, void, void>;
  close(): void;
};

/** There is no such blob, or no longer. */
export class BlobMissing extends Error {
  constructor(hash: string, place: string) {
    super(`${place} has no blob ${hash}`);
    this.name = "BlobMissing";
  }
}

/** The bytes of a blob are not the ones it was named by. */
export class BlobDamaged extends Error {
  constructor(hash: string, place: string) {
    super(`the blob ${hash} in ${place} is damaged`);
    this.name = "BlobDamaged";
  }
}

/** Throws for anything but a hash: it becomes part of a path. */
export function checkedHash(hash: string): string {
  if (!BLOB_HASH.test(hash)) throw new Error("the name of a blob is no hash");
  return hash;
}

const NOTE_NAME = /^[a-z0-9-]{1,80}(?:\/[a-z0-9-]{1,80})?$/i;
/** Of one note. */
export const MAX_NOTE_BYTES = 4096;

/** Throws for a name that could lead elsewhere. */
export function checkedNote(name: string): string {
  if (!NOTE_NAME.test(name)) throw new Error("the name of a note is not valid");
  return name;
}

/** Passes on the bytes of a whole blob; throws `BlobDamaged` once they are too many, and at the end for a wrong hash. */
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

/** Counts and hashes what passes; throws beyond the largest blob there may be. */
export class Passed {
  readonly #digest = createHash("sha256");
  bytes = 0;

  take(piece: Uint8Array): void {
    this.bytes += piece.length;
    if (this.bytes > MAX_BLOB_BYTES) throw new Error(`a blob may have at most ${MAX_BLOB_BYTES} bytes`);
    this.#digest.update(piece);
  }

  /** Of all that has passed; nothing may pass afterwards. */
  hash(): string {
    return this.#digest.digest("hex");
  }
}

/** Of these hashes, those that something names. */
type Named = (hashes: readonly string[]) => Promise<readonly string[]>;

const AT_ONCE = 500;

/** Removes every blob that was put before that time and that nothing names; gives how many. */
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

/** The time by the clock that says when blobs were put: this machine's may be wrong, and new blobs would seem old. */
export async function storeTime(blobs: BlobStore): Promise<number> {
  await blobs.writeNote(NOTE, "");
  for await (const { name, writtenAt } of blobs.listNotes(FOLDER)) if (name === NOTE) return writtenAt;
  throw new Error(`${blobs.place} does not have what was just written there`);
}
