import type { TranscriptPart } from "../model/transcript-part.ts";
import type { Chunk } from "../replicas/call.ts";

const HEADER_BYTES = 4;
const EMPTY = Buffer.alloc(0);
/** Most answers that stream at all outgrow it once or twice; ten thousand idle streams hold little. */
const FIRST_BYTES = 512;
/** Up to here a loop over the bytes beats the fixed cost of a native copy. */
const SHORT_BYTES = 64;

/**
 * Gathers chunks as a part of a transcript. Each is four bytes, its length twice and one more for text, and
 * then its bytes. What has been written is never moved within its buffer, so that readers may keep views of it.
 */
export class PartBuilder {
  firstEvent = 1;
  eventCount = 0;
  #out: Buffer = EMPTY;
  #used = 0;
  /** What the next buffer has room for at least. */
  #roomBytes = FIRST_BYTES;

  get bytes(): number {
    return this.#used;
  }

  add({ isText, bytes }: Pick<Chunk, "isText" | "bytes">): void {
    const { length } = bytes;
    this.#reserve(HEADER_BYTES + length);
    const out = this.#out;
    let at = this.#used;
    const header = length * 2 + (isText ? 1 : 0);
    out[at] = header;
    out[at + 1] = header >>> 8;
    out[at + 2] = header >>> 16;
    out[at + 3] = header >>> 24;
    at += HEADER_BYTES;
    if (length <= SHORT_BYTES) for (let i = 0; i < length; i++) out[at + i] = bytes[i]!;
    else out.set(bytes, at);
    this.#used = at + length;
    this.eventCount += 1;
  }

  /** What has been gathered; it stays. */
  view(): TranscriptPart {
    const { firstEvent, eventCount } = this;
    return { firstEvent, eventCount, bytes: this.#out.subarray(0, this.#used) };
  }

  /** What has been gathered; the next part follows it. */
  take(): TranscriptPart {
    const part = this.view();
    this.firstEvent += this.eventCount;
    this.eventCount = 0;
    // A further part becomes about as long: a buffer that grows by doubling takes three times the time.
    this.#roomBytes = this.#used + (this.#used >>> 2);
    this.#out = EMPTY;
    this.#used = 0;
    return part;
  }

  #reserve(bytes: number): void {
    const needed = this.#used + bytes;
    if (needed <= this.#out.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#out.length * 2, this.#roomBytes));
    this.#out.copy(grown, 0, 0, this.#used);
    this.#out = grown;
  }
}

/** A chunk and its number. */
export type NumberedChunk = Pick<Chunk, "isText" | "bytes"> & { readonly event: number };

/** The part's chunks that come after a number. */
export function chunksAfter(
  { firstEvent, eventCount, bytes }: TranscriptPart,
  after: number,
): NumberedChunk[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const chunks: NumberedChunk[] = [];
  let at = 0;
  for (let event = firstEvent; event < firstEvent + eventCount; event++) {
    const header = buffer.readUInt32LE(at);
    const start = at + HEADER_BYTES;
    at = start + (header >>> 1);
    if (event > after) chunks.push({ event, isText: (header & 1) === 1, bytes: buffer.subarray(start, at) });
  }
  return chunks;
}
