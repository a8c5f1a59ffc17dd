import path from "node:path";
import { createHash, randomUUID } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { type Clock, systemClock } from "../../kit/clock.ts";
import { mkdir, open, unlink, writeAll } from "../../kit/files.ts";
import { BLOB_HASH, BlobDamaged, BlobMissing, checkedHash, checkedNote } from "../blob-store.ts";
import { MAX_NOTE_BYTES, Passed, verified } from "../blob-store.ts";
import type { BlobContent, BlobStore, Reading, StoredBlob, StoredNote } from "../blob-store.ts";
import { element, elements, escaped } from "./answers.ts";
import { isTransient, type S3Address, S3Client, S3Error } from "./s3-client.ts";

const FRESH_MS = 12 * 60 * 60 * 1000;
const UNSATISFIABLE = 416;
const EXISTS = 412;
/** The store does not support conditions. */
const UNKNOWN = 501;

export type S3Options = {
  /** A local folder for large blobs until their hash is known. */
  readonly spoolDir: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly clock?: Clock;
  /** Larger blobs are sent in parts of this size. */
  readonly partBytes?: number;
  /** An older blob is put again, so that the collection of unreferenced blobs keeps it. */
  readonly freshMs?: number;
};

/** The content of a blob: in memory if it is small, otherwise in a file. */
type Content = { readonly hash: string; readonly bytes: number; readonly held: Buffer | FileHandle };

/** Blobs as objects `sha256/ab12…` of a bucket, below its prefix. */
export class S3Blobs implements BlobStore {
  readonly kind = "s3";
  readonly place: string;
  readonly #client: S3Client;
  readonly #prefix: string;
  readonly #options: Required<S3Options>;

  private constructor(address: S3Address, options: Required<S3Options>) {
    this.#client = new S3Client(address, options.env, options.clock);
    this.place = this.#client.place;
    this.#prefix = address.prefix;
    this.#options = options;
  }

  /** Throws if the bucket cannot be reached with the available credentials. */
  static async open(address: S3Address, options: S3Options): Promise<S3Blobs> {
    await mkdir(options.spoolDir, { recursive: true, mode: 0o700 });
    const defaults = { env: process.env, clock: systemClock, partBytes: PART_BYTES, freshMs: FRESH_MS };
    const blobs = new S3Blobs(address, { ...defaults, ...options });
    await blobs.#page("sha256/", null, 1);
    return blobs;
  }

  async put(content: BlobContent, signal?: AbortSignal): Promise<StoredBlob> {
    return await this.#gathered(content, signal, async ({ hash, bytes, held }) => {
      if (Buffer.isBuffer(held)) await this.#putWhole(hash, held, signal);
      else if (!(await this.#isFresh(hash))) {
        const size = partBytes(bytes, this.#options.partBytes);
        await putParts(this.#client, this.#key(hash), { file: held, bytes, size }, signal);
        if ((await this.#found(hash))?.bytes !== bytes) throw new BlobMissing(hash, this.place);
      }
      return { hash, bytes, putAt: this.#options.clock.now() };
    });
  }

  async *open(hash: string, reading: Reading = {}): AsyncGenerator<Buffer, void, void> {
    const pieces = this.#read(checkedHash(hash), reading);
    yield* reading.range ? pieces : verified(pieces, hash, this.place, reading.bytes);
  }

  async has(hash: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.#found(hash, signal)) !== null;
  }

  async remove(hash: string, putBefore = Number.POSITIVE_INFINITY): Promise<boolean> {
    const key = this.#key(hash);
    const found = putBefore === Number.POSITIVE_INFINITY ? null : await this.#found(hash);
    if (found && found.putAt >= putBefore) return false;
    await this.#client.ask({ method: "DELETE", key }, [404]);
    return true;
  }

  async *list(prefix = ""): AsyncGenerator<StoredBlob, void, void> {
    for await (const { name, ...stored } of this.#objects(`sha256/${prefix}`)) {
      const hash = name.slice("sha256/".length);
      if (BLOB_HASH.test(hash)) yield { hash, ...stored };
    }
  }

  async tidy(before: number): Promise<void> {
    const query = { uploads: "", prefix: `${this.#prefix}sha256/` };
    const { body } = await this.#client.ask({ method: "GET", key: "", query });
    for (const upload of elements(body.toString("utf8"), "Upload")) {
      const key = element(upload, "Key") ?? "";
      const uploadId = element(upload, "UploadId") ?? "";
      const begunAt = Date.parse(element(upload, "Initiated") ?? "");
      if (!key.startsWith(`${this.#prefix}sha256/`) || uploadId === "" || !(begunAt < before)) continue;
      await this.#client.ask({ method: "DELETE", key, query: { uploadId } }, [404]);
    }
  }

  async writeNote(name: string, text: string): Promise<void> {
    const body = Buffer.from(text.slice(0, MAX_NOTE_BYTES));
    await this.#client.ask({ method: "PUT", key: this.#note(name), body });
  }

  async readNote(name: string): Promise<string | null> {
    const { status, body } = await this.#client.ask({ method: "GET", key: this.#note(name) }, [404]);
    return status === 404 || body.length > MAX_NOTE_BYTES ? null : body.toString("utf8");
  }

  async removeNote(name: string): Promise<void> {
    await this.#client.ask({ method: "DELETE", key: this.#note(name) }, [404]);
  }

  async *listNotes(folder: string): AsyncGenerator<StoredNote, void, void> {
    for await (const { name, putAt } of this.#objects(`notes/${checkedNote(folder)}/`))
      yield { name: name.slice("notes/".length), writtenAt: putAt };
  }

  close(): void {
    this.#client.close();
  }

  /** Collects a blob until its hash, and so its key, is known: in memory, or in an unlinked file if it is large. */
  async #gathered<Result>(
    content: BlobContent,
    signal: AbortSignal | undefined,
    act: (content: Content) => Promise<Result>,
  ): Promise<Result> {
    const passed = new Passed();
    const pieces: Uint8Array[] = [];
    let file: FileHandle | null = null;
    try {
      for await (const piece of content) {
        signal?.throwIfAborted();
        passed.take(piece);
        if (passed.bytes > this.#options.partBytes) file ??= await this.#spool(pieces);
        if (file) await writeAll(file, piece);
        else pieces.push(piece);
      }
      signal?.throwIfAborted();
      return await act({ hash: passed.hash(), bytes: passed.bytes, held: file ?? Buffer.concat(pieces) });
    } finally {
      await file?.close();
    }
  }

  async #spool(pieces: Uint8Array[]): Promise<FileHandle> {
    const name = path.join(this.#options.spoolDir, randomUUID());
    const file = await open(name, "wx+", 0o600);
    try {
      await unlink(name);
      for (const piece of pieces.splice(0)) await writeAll(file, piece);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async #putWhole(hash: string, body: Buffer, signal?: AbortSignal): Promise<void> {
    const headers = { "x-amz-checksum-sha256": checksumOf(body) };
    const asked = { method: "PUT", key: this.#key(hash), headers, body, signal } as const;
    const first = { ...asked, headers: { ...headers, "if-none-match": "*" } };
    const { status } = await this.#client.ask(first, [EXISTS, UNKNOWN]);
    const isThere = status === EXISTS && (await this.#isFresh(hash));
    if (!isThere && status >= 400) await this.#client.ask(asked);
  }

  async *#read(hash: string, { range, bytes, signal }: Reading): AsyncGenerator<Buffer, void, void> {
    const key = this.#key(hash);
    let at = range?.start ?? 0;
    if (range && range.end <= at) return;
    for (let tries = 1; ; tries += 1) {
      const isPart = range !== undefined || at > 0;
      const headers = isPart ? { range: `bytes=${at}-${range ? range.end - 1 : ""}` } : {};
      const answer = await this.#client.stream({ method: "GET", key, headers, signal }, [UNSATISFIABLE]);
      if (!answer) throw new BlobMissing(hash, this.place);
      try {
        if (answer.statusCode === UNSATISFIABLE) return;
        const length = Number(answer.headers["content-length"] ?? bytes);
        if (!isPart && typeof bytes === "number" && length !== bytes) throw new BlobDamaged(hash, this.place);
        if (isPart && answer.statusCode !== 206) throw new Error(`${this.place} does not serve ranges`);
        for await (const piece of answer as AsyncIterable<Buffer>) {
          at += piece.length;
          // It continues: earlier failures do not count any more.
          tries = 1;
          yield piece;
        }
        return;
      } catch (error) {
        if (!isTransient(error) || !(await this.#client.again(tries, signal))) throw error;
      } finally {
        answer.destroy();
      }
    }
  }

  async #isFresh(hash: string): Promise<boolean> {
    const found = await this.#found(hash);
    return found !== null && found.putAt > this.#options.clock.now() - this.#options.freshMs;
  }

  async #found(hash: string, signal?: AbortSignal): Promise<StoredBlob | null> {
    const asked = { method: "HEAD", key: this.#key(hash), signal } as const;
    const { status, headers } = await this.#client.ask(asked, [404]);
    if (status === 404) return null;
    const putAt = Date.parse(headers["last-modified"] ?? "");
    return { hash, bytes: Number(headers["content-length"]), putAt: Number.isNaN(putAt) ? 0 : putAt };
  }

  async *#objects(prefix: string): AsyncGenerator<StoredObject, void, void> {
    let token: string | null = null;
    do {
      const page: Page = await this.#page(prefix, token);
      yield* page.objects;
      token = page.next;
    } while (token !== null);
  }

  async #page(prefix: string, token: string | null, most = 1000): Promise<Page> {
    const from = token === null ? {} : { "continuation-token": token };
    const query = { "list-type": "2", prefix: this.#prefix + prefix, "max-keys": String(most), ...from };
    const { body } = await this.#client.ask({ method: "GET", key: "", query });
    const text = body.toString("utf8");
    const objects = elements(text, "Contents").flatMap((entry) => {
      const name = (element(entry, "Key") ?? "").slice(this.#prefix.length);
      const putAt = Date.parse(element(entry, "LastModified") ?? "");
      return Number.isNaN(putAt) ? [] : { name, bytes: Number(element(entry, "Size")), putAt };
    });
    const isWhole = element(text, "IsTruncated") !== "true";
    return { objects, next: isWhole ? null : element(text, "NextContinuationToken") };
  }

  #key(hash: string): string {
    return `${this.#prefix}sha256/${checkedHash(hash)}`;
  }

  #note(name: string): string {
    return `${this.#prefix}notes/${checkedNote(name)}`;
  }
}

/** An object of the bucket; its name is without the prefix. */
type StoredObject = { readonly name: string; readonly bytes: number; readonly putAt: number };
type Page = { readonly objects: readonly StoredObject[]; readonly next: string | null };

const PART_BYTES = 16 * 1024 * 1024;
/** The limit of S3. */
const MAX_PARTS = 10_000;

/** The size of the parts of a blob: more than `least` if there would be too many parts. */
export function partBytes(bytes: number, least = PART_BYTES): number {
  return Math.max(least, Math.ceil(bytes / MAX_PARTS / least) * least);
}

type PartedFile = { readonly file: FileHandle; readonly bytes: number; readonly size: number };

/** Stores a file part by part, each with its checksum. A failure removes the parts if the store can be reached. */
async function putParts(
  client: S3Client,
  key: string,
  parted: PartedFile,
  signal?: AbortSignal,
): Promise<void> {
  const { file, bytes, size } = parted;
  const headers = { "x-amz-checksum-algorithm": "SHA256" };
  const begun = await client.ask({ method: "POST", key, query: { uploads: "" }, headers, signal });
  const uploadId = element(begun.body.toString("utf8"), "UploadId");
  if (!uploadId || uploadId.length > 2_048) throw new Error(`${client.place} began an upload without an id`);
  try {
    let parts = "";
    for (let at = 0, number = 1; at < bytes; at += size, number += 1) {
      const body = await readAt(file, at, Math.min(size, bytes - at));
      const checksum = checksumOf(body);
      const query = { partNumber: String(number), uploadId };
      const headers = { "x-amz-checksum-sha256": checksum };
      const answer = await client.ask({ method: "PUT", key, query, headers, body, signal });
      const etag = escaped(answer.headers.etag ?? "");
      parts += `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag><ChecksumSHA256>${checksum}</ChecksumSHA256></Part>`;
    }
    const body = Buffer.from(`<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`);
    const asked = { method: "POST", key, query: { uploadId }, body, signal } as const;
    // A missing upload was completed by a try whose answer was lost: the caller checks that the object exists.
    const answer = await client.ask(asked, [404]);
    // The store begins its answer before the end, which only the body reports.
    if (answer.status !== 404 && element(answer.body.toString("utf8"), "Error") !== null)
      throw new S3Error(client.place, asked, { ...answer, status: 500 });
  } catch (error) {
    await client.ask({ method: "DELETE", key, query: { uploadId } }, [404]).catch(() => undefined);
    throw error;
  }
}

function checksumOf(body: Buffer): string {
  return createHash("sha256").update(body).digest("base64");
}

async function readAt(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  const body = Buffer.allocUnsafe(bytes);
  for (let read = 0; read < bytes;) {
    const { bytesRead } = await file.read(body, read, bytes - read, at + read);
    if (bytesRead === 0) throw new Error("a file became shorter while it was uploaded");
    read += bytesRead;
  }
  return body;
}
