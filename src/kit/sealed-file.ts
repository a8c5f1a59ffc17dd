import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  randomBytes,
  scrypt,
  timingSafeEqual,
} from "node:crypto";
import { type ByteReader, type ByteSink, open } from "./files.ts";
import type { FileHandle } from "node:fs/promises";

/**
 * A file that a passphrase opens (docs/operations.md): a head, then chunks of AES-256-GCM, of one size except the last. The
 * nonce contains a chunk's number and whether it is the last, so that moved, missing or added chunks are detected.
 */
const MAGIC = Buffer.from("millrace-sealed\u0001", "latin1");
export const TAG_BYTES = 16;

const SALT_AT = 24;
const SALT_BYTES = 32;
const CHECK_AT = SALT_AT + SALT_BYTES;
const CHECK_BYTES = 32;
export const HEAD_BYTES = CHECK_AT + CHECK_BYTES;

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
/** scrypt's usual block size and parallelism. */
const BLOCK = 8;
const LANES = 1;
/** The maximum for foreign files: 2^20 takes 1 GiB of memory. */
const COST_BITS = { min: 10, max: 20 } as const;
const CHUNK_BYTES = { min: 64, max: 16 * 1024 * 1024 } as const;

/** The parameters of a file, which are not secret. */
type SealTerms = {
  /** The cost of one try, as a power of two. */
  readonly costBits: number;
  readonly chunkBytes: number;
  readonly salt: Buffer;
};

/** Derived from the passphrase for one file. */
type SealKeys = { readonly content: Buffer; readonly check: Buffer };

/** The file is not sealed, was changed or cut, or the passphrase is wrong. */
export class BadSeal extends Error {
  override readonly name = "BadSeal";
}

/** Half a second and 128 MiB for one passphrase with the usual cost. */
async function deriveKeys(passphrase: string, { costBits, salt }: SealTerms): Promise<SealKeys> {
  const N = 2 ** costBits;
  const options = { N, r: BLOCK, p: LANES, maxmem: 256 * N * BLOCK };
  // Keyboards compose letters in different ways.
  const text = passphrase.normalize("NFKC");
  const both = await new Promise<Buffer>((resolve, reject) => {
    scrypt(text, salt, 2 * KEY_BYTES, options, (error, key) => (error ? reject(error) : resolve(key)));
  });
  return { content: both.subarray(0, KEY_BYTES), check: both.subarray(KEY_BYTES) };
}

function packHead({ costBits, chunkBytes, salt }: SealTerms, { check }: SealKeys): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  MAGIC.copy(head);
  head.set([costBits, BLOCK, LANES, 0], MAGIC.length);
  head.writeUInt32BE(chunkBytes, 20);
  salt.copy(head, SALT_AT);
  checkOf(head, check).copy(head, CHECK_AT);
  return head;
}

/** Throws `BadSeal` for a head that no release has written. */
function readHead(head: Buffer): SealTerms {
  if (head.length < HEAD_BYTES || !isSealed(head))
    throw new BadSeal("it is not an encrypted backup, or it is cut off");
  const [costBits = 0, block, lanes, rest] = head.subarray(MAGIC.length, 20);
  const chunkBytes = head.readUInt32BE(20);
  const isKnown = block === BLOCK && lanes === LANES && rest === 0;
  if (!isKnown || !isWithin(costBits, COST_BITS) || !isWithin(chunkBytes, CHUNK_BYTES)) {
    throw new BadSeal("its head was changed, or a newer release wrote it");
  }
  return { costBits, chunkBytes, salt: head.subarray(SALT_AT, CHECK_AT) };
}

/** Whether bytes begin as a sealed file does. */
function isSealed(begin: Buffer): boolean {
  return begin.subarray(0, MAGIC.length).equals(MAGIC);
}

type Position = { readonly number: number; readonly isLast: boolean };

function sealChunk(plain: Buffer, position: Position, { content }: SealKeys, head: Buffer): Buffer {
  const cipher = createCipheriv("aes-256-gcm", content, nonceOf(position)).setAAD(head);
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

/** Throws `BadSeal` if it is not the chunk of that position. */
function openChunk(sealed: Buffer, position: Position, { content }: SealKeys, head: Buffer): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", content, nonceOf(position), { authTagLength: TAG_BYTES });
  decipher.setAAD(head).setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]);
  } catch {
    throw new BadSeal("it was changed or cut off after it was written");
  }
}

/** Every file has a key of its own, so a number is enough. */
function nonceOf({ number, isLast }: Position): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeBigUInt64BE(BigInt(number), 3);
  nonce[NONCE_BYTES - 1] = isLast ? 1 : 0;
  return nonce;
}

function checkOf(head: Buffer, key: Buffer): Buffer {
  return createHmac("sha256", key).update(head.subarray(0, CHECK_AT)).digest();
}

function isWithin(value: number, { min, max }: { readonly min: number; readonly max: number }): boolean {
  return value >= min && value <= max;
}

/** A try takes half a second and 128 MiB; a chunk is one write. */
const USUAL = { costBits: 17, chunkBytes: 1024 * 1024 } as const;

/** Encrypts the bytes with a passphrase, and writes them to another sink. */
export class SealedSink implements ByteSink {
  readonly #to: ByteSink;
  readonly #keys: SealKeys;
  readonly #head: Buffer;
  readonly #chunk: Buffer;
  #used = 0;
  #number = 0;

  private constructor(to: ByteSink, keys: SealKeys, head: Buffer, chunkBytes: number) {
    this.#to = to;
    this.#keys = keys;
    this.#head = head;
    this.#chunk = Buffer.alloc(chunkBytes);
  }

  static async over(
    to: ByteSink,
    passphrase: string,
    cost: Omit<SealTerms, "salt"> = USUAL,
  ): Promise<SealedSink> {
    const terms = { ...cost, salt: randomBytes(SALT_BYTES) };
    const keys = await deriveKeys(passphrase, terms);
    const head = packHead(terms, keys);
    await to.write(head);
    return new SealedSink(to, keys, head, terms.chunkBytes);
  }

  async write(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      // Not before more bytes: the last chunk is marked, and may be full.
      if (this.#used === this.#chunk.length) await this.#flush(false);
      const taken = bytes.copy(this.#chunk, this.#used, at);
      this.#used += taken;
      at += taken;
    }
  }

  async finish(): Promise<void> {
    await this.#flush(true);
    await this.#to.finish();
  }

  async abandon(): Promise<void> {
    await this.#to.abandon();
  }

  async #flush(isLast: boolean): Promise<void> {
    const position = { number: this.#number++, isLast };
    await this.#to.write(sealChunk(this.#chunk.subarray(0, this.#used), position, this.#keys, this.#head));
    this.#used = 0;
  }
}

/** Reads a sealed file; throws `BadSeal` where it was changed or cut, and returns no byte of that. */
export class SealedReader implements ByteReader {
  readonly #file: FileHandle;
  readonly #keys: SealKeys;
  readonly #head: Buffer;
  readonly #sealedBytes: number;
  /** Of all chunks; decides which is the last. */
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

  /** Throws `BadSeal` for a wrong passphrase. */
  static async open(path: string, passphrase: string): Promise<SealedReader> {
    const file = await open(path, "r");
    try {
      const head = await take(file, 0, HEAD_BYTES);
      const terms = readHead(head);
      const keys = await deriveKeys(passphrase, terms);
      if (!timingSafeEqual(checkOf(head, keys.check), head.subarray(CHECK_AT, HEAD_BYTES)))
        throw new BadSeal("the passphrase is wrong");
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

/** Whether a file begins like a sealed one. */
export async function isSealedFile(path: string): Promise<boolean> {
  const file = await open(path, "r");
  try {
    return isSealed(await take(file, 0, HEAD_BYTES));
  } finally {
    await file.close();
  }
}

/** That many bytes, or all there are. */
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
