import type { FileHandle } from "node:fs/promises";
import { open } from "../files.ts";
import type { ByteReader } from "../byte-file.ts";
import {
  BadSeal,
  HEAD_BYTES,
  TAG_BYTES,
  deriveKeys,
  isHeadOf,
  isSealed,
  openChunk,
  readHead,
} from "./format.ts";
import type { SealKeys } from "./format.ts";

/** Reads what `SealedSink` wrote; throws `BadSeal` where it was changed or cut, and never gives a byte of that. */
export class SealedReader implements ByteReader {
  readonly #file: FileHandle;
  readonly #keys: SealKeys;
  readonly #head: Buffer;
  readonly #sealedBytes: number;
  /** Of all chunks together; where the file ends says which is the last. */
  readonly #bodyBytes: number;
  #number = 0;
  #rest: Buffer = Buffer.alloc(0);

  private constructor(file: FileHandle, keys: SealKeys, head: Buffer, chunkBytes: number, fileBytes: number) {
    this.#file = file;
    this.#keys = keys;
    this.#head = head;
    this.#sealedBytes = chunkBytes + TAG_BYTES;
    this.#bodyBytes = fileBytes - HEAD_BYTES;
  }

  /** Throws `BadSeal` for another passphrase than the file's. */
  static async open(path: string, passphrase: string): Promise<SealedReader> {
    const file = await open(path, "r");
    try {
      const head = await take(file, 0, HEAD_BYTES);
      const terms = readHead(head);
      const keys = await deriveKeys(passphrase, terms);
      if (!isHeadOf(head, keys)) throw new BadSeal("the passphrase is wrong");
      return new SealedReader(file, keys, head, terms.chunkBytes, (await file.stat()).size);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async read(into: Buffer): Promise<number> {
    if (this.#rest.length === 0 && !this.#isOver) this.#rest = await this.#next();
    const taken = this.#rest.copy(into);
    this.#rest = this.#rest.subarray(taken);
    return taken;
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  get #isOver(): boolean {
    // An empty file has one chunk too.
    return this.#number > 0 && this.#number * this.#sealedBytes >= this.#bodyBytes;
  }

  async #next(): Promise<Buffer> {
    const number = this.#number;
    const at = number * this.#sealedBytes;
    const isLast = at + this.#sealedBytes >= this.#bodyBytes;
    const bytes = Math.min(this.#sealedBytes, this.#bodyBytes - at);
    if (bytes < TAG_BYTES) throw new BadSeal("it was changed or cut off after it was written");
    const sealed = await take(this.#file, HEAD_BYTES + at, bytes);
    this.#number += 1;
    return openChunk(sealed, { number, isLast }, this.#keys, this.#head);
  }
}

/** Whether a file is sealed, by how it begins. */
export async function isSealedFile(path: string): Promise<boolean> {
  const file = await open(path, "r");
  try {
    return isSealed(await take(file, 0, HEAD_BYTES));
  } finally {
    await file.close();
  }
}

/** So many bytes from there, or all there are. */
async function take(file: FileHandle, from: number, count: number): Promise<Buffer> {
  const bytes = Buffer.alloc(count);
  let at = 0;
  while (at < count) {
    const { bytesRead } = await file.read(bytes, at, count - at, from + at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return bytes.subarray(0, at);
}
