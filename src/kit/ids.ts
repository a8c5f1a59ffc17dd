import { randomBytes, randomFillSync, randomInt } from "node:crypto";

const POOL_BYTES = 10 * 512;
const DIGITS = Buffer.from("0123456789abcdef");

/** How far the ids of runs may be ahead of the clock: lists, figures and retention use the time in them. */
export const RUN_AHEAD_MS = 10_000;

/**
 * Makes UUIDv7s as text: 48 bits of milliseconds, 12 bits that grow within a millisecond, so that ids of one source sort by
 * birth, and 62 random bits. If the clock is set back, ids continue from the last one, unless that is more than `maxAheadMs`
 * ahead. Made from strings, an id would take 400 ns instead of 160, and twenty strings.
 */
export class UuidSource {
  readonly #maxAheadMs: number;
  readonly #pool = Buffer.alloc(POOL_BYTES);
  #poolOffset = POOL_BYTES;
  #lastMs = 0;
  #sequence = 0;
  /** The id in progress; its time part is only written when it changes. */
  readonly #text = Buffer.from("00000000-0000-7000-8000-000000000000");

  constructor(maxAheadMs = Number.POSITIVE_INFINITY) {
    this.#maxAheadMs = maxAheadMs;
  }

  next(nowMs: number): string {
    const pool = this.#pool;
    if (this.#poolOffset === POOL_BYTES) {
      randomFillSync(pool);
      this.#poolOffset = 0;
    }
    const r = this.#poolOffset;
    this.#poolOffset += 10;
    if (nowMs > this.#lastMs || this.#lastMs - nowMs > this.#maxAheadMs) {
      this.#setTime(nowMs);
      this.#sequence = ((pool[r]! << 8) | pool[r + 1]!) & 0x7ff;
    } else if (++this.#sequence > 0xfff) {
      // Over two thousand ids in a millisecond, or a clock that was set back: borrows from the next one.
      this.#setTime(this.#lastMs + 1);
      this.#sequence = 0;
    }
    const text = this.#text;
    const sequence = this.#sequence;
    writeByte(text, 15, sequence >>> 4);
    text[17] = DIGITS[sequence & 0xf]!;
    writeByte(text, 19, 0x80 | (pool[r + 2]! & 0x3f));
    writeByte(text, 21, pool[r + 3]!);
    for (let i = 0; i < 6; i++) writeByte(text, 24 + 2 * i, pool[r + 4 + i]!);
    return text.toString("latin1");
  }

  #setTime(ms: number): void {
    this.#lastMs = ms;
    const hex = ms.toString(16).padStart(12, "0");
    this.#text.write(`${hex.slice(0, 8)}-${hex.slice(8)}`, "latin1");
  }
}

function writeByte(text: Buffer, offset: number, value: number): void {
  text[offset] = DIGITS[value >>> 4]!;
  text[offset + 1] = DIGITS[value & 0xf]!;
}

/** The 16 bytes of a UUID's text form. */
export function uuidBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll("-", ""), "hex");
}

/** Where each byte of a UUID stands in its text form. */
const BYTE_OFFSETS = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34] as const;
const NIBBLES = new Uint8Array(128);
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16);
  NIBBLES[digit.charCodeAt(0)] = value;
  NIBBLES[digit.toUpperCase().charCodeAt(0)] = value;
}

/** Writes the 16 bytes of a UUID: for thousands of ids, an object for each would cost too much. */
export function writeUuid(id: string, target: Uint8Array, start: number): void {
  for (let i = 0; i < BYTE_OFFSETS.length; i++) {
    const offset = BYTE_OFFSETS[i]!;
    target[start + i] = (NIBBLES[id.charCodeAt(offset)]! << 4) | NIBBLES[id.charCodeAt(offset + 1)]!;
  }
}

/** The text form of 16 bytes. */
export function uuidText(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";

/** Random lower-case letters and digits, unbiased. */
export function randomName(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
}

/** A secret for one use: 128 bits, hex. */
export function randomTicket(): string {
  return randomBytes(16).toString("hex");
}

/** The lowest possible UUIDv7 of that millisecond. */
export function firstIdAt(ms: number): Buffer {
  return uuidBytes(Math.max(0, Math.floor(ms)).toString(16).padStart(12, "0").padEnd(32, "0"));
}

/** Random bytes are drawn many at a time: one by one, each draw would cost a microsecond. */
const HEX_POOL_BYTES = 4096;
const hexPool = Buffer.allocUnsafe(HEX_POOL_BYTES);
let hexAt = HEX_POOL_BYTES;

/** That many random bytes as hexadecimal digits, never all of them zero. */
export function randomHex(bytes: number): string {
  if (hexAt + bytes > HEX_POOL_BYTES) {
    randomFillSync(hexPool);
    hexAt = 0;
  }
  const start = hexAt;
  hexAt += bytes;
  const hex = hexPool.toString("hex", start, hexAt);
  return /[^0]/.test(hex) ? hex : randomHex(bytes);
}

/** When a UUIDv7 was made, in epoch milliseconds. */
export function idTime(id: Uint8Array): number {
  return Buffer.from(id.buffer, id.byteOffset, 6).readUIntBE(0, 6);
}
