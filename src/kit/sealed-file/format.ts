import { createCipheriv, createDecipheriv, createHmac, scrypt, timingSafeEqual } from "node:crypto";

/**
 * A file that only a passphrase opens, as docs/operations.md describes it: a head, then chunks of AES-256-GCM. All
 * but the last are of one size. The number of a chunk and whether it is the last are part of its nonce, so none can
 * be moved, left out or added, and the file cannot be cut, without its being noticed.
 */
const MAGIC = Buffer.from("millrace-sealed\u0001", "latin1");
export const TAG_BYTES = 16;

const SALT_AT = 24;
export const SALT_BYTES = 32;
const CHECK_AT = SALT_AT + SALT_BYTES;
const CHECK_BYTES = 32;
export const HEAD_BYTES = CHECK_AT + CHECK_BYTES;

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
/** scrypt's block size and parallelism, as everybody has them. */
const BLOCK = 8;
const LANES = 1;
/** A file from elsewhere must not ask for more memory than this: 2^20 takes 1 GiB. */
const COST_BITS = { min: 10, max: 20 } as const;
const CHUNK_BYTES = { min: 64, max: 16 * 1024 * 1024 } as const;

/** How a file is sealed: what of it is not secret. */
export type SealTerms = {
  /** The cost of trying one passphrase, as a power of two. */
  readonly costBits: number;
  readonly chunkBytes: number;
  readonly salt: Buffer;
};

/** What a passphrase comes to for one file. */
export type SealKeys = { readonly content: Buffer; readonly check: Buffer };

/** The file is none of these, was changed or cut, or the passphrase is another. */
export class BadSeal extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "BadSeal";
  }
}

/** Half a second and 128 MiB for one passphrase with the usual cost. */
export async function deriveKeys(passphrase: string, { costBits, salt }: SealTerms): Promise<SealKeys> {
  const N = 2 ** costBits;
  const options = { N, r: BLOCK, p: LANES, maxmem: 256 * N * BLOCK };
  // The same words, however a keyboard composes their letters.
  const text = passphrase.normalize("NFKC");
  const both = await new Promise<Buffer>((resolve, reject) => {
    scrypt(text, salt, 2 * KEY_BYTES, options, (error, key) => (error ? reject(error) : resolve(key)));
  });
  return { content: both.subarray(0, KEY_BYTES), check: both.subarray(KEY_BYTES) };
}

export function packHead({ costBits, chunkBytes, salt }: SealTerms, { check }: SealKeys): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  MAGIC.copy(head);
  head.set([costBits, BLOCK, LANES, 0], MAGIC.length);
  head.writeUInt32BE(chunkBytes, 20);
  salt.copy(head, SALT_AT);
  checkOf(head, check).copy(head, CHECK_AT);
  return head;
}

/** Throws `BadSeal` for what no release has written. */
export function readHead(head: Buffer): SealTerms {
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

/** Whether the keys are those that the head was written with. */
export function isHeadOf(head: Buffer, { check }: SealKeys): boolean {
  return timingSafeEqual(checkOf(head, check), head.subarray(CHECK_AT, HEAD_BYTES));
}

/** Whether bytes begin as a sealed file does. */
export function isSealed(begin: Buffer): boolean {
  return begin.subarray(0, MAGIC.length).equals(MAGIC);
}

export function sealChunk(
  plain: Buffer,
  position: { readonly number: number; readonly isLast: boolean },
  { content }: SealKeys,
  head: Buffer,
): Buffer {
  const cipher = createCipheriv("aes-256-gcm", content, nonceOf(position)).setAAD(head);
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

/** Throws `BadSeal` when it is not the chunk that was written for that place. */
export function openChunk(
  sealed: Buffer,
  position: { readonly number: number; readonly isLast: boolean },
  { content }: SealKeys,
  head: Buffer,
): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", content, nonceOf(position), { authTagLength: TAG_BYTES });
  decipher.setAAD(head).setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]);
  } catch {
    throw new BadSeal("it was changed or cut off after it was written");
  }
}

/** Every file has a key of its own, so a number is enough. */
function nonceOf({ number, isLast }: { readonly number: number; readonly isLast: boolean }): Buffer {
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
