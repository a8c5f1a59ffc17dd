import type { FileHandle } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from "yauzl";
import { callbackify } from "node:util";

const END_BYTES = 22;
const UNICODE_NAME = 0x7075;

/** A zip's central directory: what its writer says is in it. Nothing of it is to be believed unchecked. */
export class ZipDirectory {
  readonly zip: ZipFile;
  readonly #start: number;

  private constructor(zip: ZipFile) {
    this.zip = zip;
    this.#start = Number(zip.readEntryCursor);
  }

  /** The file stays the caller's to close. Throws `BundleError` for what is no zip, or not whole. */
  static async open(file: FileHandle): Promise<ZipDirectory> {
    try {
      // Names stay bytes, and sizes are judged here, entry by entry: else the first fault would be the only one.
      const options = { autoClose: false, decodeStrings: false, validateEntrySizes: false };
      const { size } = await file.stat();
      return new ZipDirectory(await fromRandomAccessReaderPromise(new ZipBytes(file, size), size, options));
    } catch (error) {
      throw await whyUnreadable(file, error);
    }
  }

  /** Every entry in the directory's order. Throws `BundleError` when the directory is damaged. */
  async *entries(): AsyncGenerator<Entry, void, void> {
    try {
      for await (const entry of this.zip.eachEntry()) yield entry;
    } catch (error) {
      throw damaged(error);
    }
  }

  /** Where the directory lies, once all of it has been read, and where the record after it begins. */
  get span(): { readonly start: number; readonly end: number; readonly recordStart: number } {
    const { readEntryCursor, fileSize, comment } = this.zip;
    return {
      start: this.#start,
      end: Number(readEntryCursor),
      recordStart: fileSize - END_BYTES - comment.length,
    };
  }
}

/** An entry's name in UTF-8: the one beside the header's if there is one that belongs to it. */
export function nameOf({ fileNameRaw, extraFields }: Entry): Buffer {
  const beside = extraFields.find(({ id, data }) => id === UNICODE_NAME && data.length > 5 && data[0] === 1);
  if (beside && beside.data.readUInt32LE(1) === crc32(fileNameRaw)) return beside.data.subarray(5);
  return fileNameRaw;
}

async function whyUnreadable(file: FileHandle, error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || "code" in error) return error;
  const head = Buffer.alloc(4);
  const { bytesRead } = await file.read(head, 0, 4, 0);
  if (bytesRead === 0) return new BundleError(["The upload is empty."], error);
  if (error.message.startsWith("multi-disk"))
    return new BundleError(["The zip is one of several parts; send it as one."], error);
  if (!head.toString("latin1").startsWith("PK")) return new BundleError(["The upload is not a zip."], error);
  return new BundleError(["The zip is cut off, or something was appended to it."], error);
}

function damaged(error: unknown): unknown {
  if (!(error instanceof Error) || "code" in error) return error;
  if (error.message.startsWith("strong encryption")) return new BundleError(["The zip is encrypted."], error);
  return new BundleError(["The zip's directory is damaged or cut off."], error);
}

type Window = { readonly start: number; readonly bytes: Buffer };

const WINDOW_BYTES = 32 * 1024;
/** One moves through the directory, the other through the entries. */
const WINDOWS = 2;

/** Reads ahead for yauzl, which asks for small pieces: with 99,000 entries 4 s, not 29. Refuses impossible offsets. */
class ZipBytes extends RandomAccessReader {
  readonly #file: FileHandle;
  readonly #size: number;
  #windows: Window[] = [];

  constructor(file: FileHandle, size: number) {
    super();
    this.#file = file;
    this.#size = size;
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    if (position + length > this.#size) {
      queueMicrotask(() => callback(new Error("unexpected EOF")));
      return;
    }
    const there = this.#windows.find(
      ({ start, bytes }) => start <= position && position + length <= start + bytes.length,
    );
    if (there) {
      there.bytes.copy(buffer, offset, position - there.start, position - there.start + length);
      this.#use(there);
      queueMicrotask(() => callback(null));
      return;
    }
    callbackify(async () => {
      (await this.#readOn(position, length)).copy(buffer, offset, 0, length);
    })(callback);
  }

  async #readOn(start: number, length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(Math.min(Math.max(WINDOW_BYTES, length), this.#size - start));
    const { bytesRead } = await this.#file.read(bytes, 0, bytes.length, start);
    if (bytesRead < length) throw new Error("unexpected EOF");
    const window = { start, bytes: bytes.subarray(0, bytesRead) };
    this.#use(window);
    return window.bytes;
  }

  #use(window: Window): void {
    this.#windows = [window, ...this.#windows.filter((other) => other !== window)].slice(0, WINDOWS);
  }
}

const MAX_SHOWN = 20;

/** An upload that is not taken, with the reasons: each a sentence in which names are shown safely. */
export class BundleError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[], cause?: unknown) {
    super(problems.join("\n"), cause === undefined ? {} : { cause });
    this.name = "BundleError";
    this.problems = problems;
  }
}

/** The problems of one upload: the first 20 are kept, the others counted. */
export class Problems {
  readonly #shown: string[] = [];
  #count = 0;

  add(problem: string): void {
    this.#count += 1;
    if (this.#shown.length < MAX_SHOWN) this.#shown.push(problem);
  }

  throwIfAny(): void {
    if (this.#count === 0) return;
    const more = this.#count - this.#shown.length;
    throw new BundleError(more === 0 ? this.#shown : [...this.#shown, `There are ${more} more problems.`]);
  }
}
