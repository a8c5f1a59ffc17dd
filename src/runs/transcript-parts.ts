import type { RunKey, RunPart, TranscriptPart } from "../model/run.ts";
import type { Chunk } from "../replicas/call.ts";
import { Condition, FairLane } from "../kit/concurrency.ts";
import type { Clock } from "../kit/clock.ts";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import type { Log } from "../kit/log.ts";
import { WriteBehind } from "../kit/write-behind.ts";
import type { Store } from "../store/store.ts";
import { AppError } from "../model/errors.ts";

const HEADER_BYTES = 4;
const EMPTY = Buffer.alloc(0);
/** Most streams outgrow it once or twice; idle streams hold little. */
const FIRST_BYTES = 512;
/** Up to here a loop over the bytes beats the fixed cost of a native copy. */
const SHORT_BYTES = 64;

/**
 * Gathers chunks as a part of a transcript: for each, four bytes with twice its length, plus one for text, then its bytes.
 * Written bytes never move within their buffer, so that readers may keep views of them.
 */
export class PartBuilder {
  firstEvent = 1;
  eventCount = 0;
  #out: Buffer = EMPTY;
  #used = 0;
  /** The minimum size of the next buffer. */
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

  /** The chunks so far, which stay. */
  view(): TranscriptPart {
    const { firstEvent, eventCount } = this;
    return { firstEvent, eventCount, bytes: this.#out.subarray(0, this.#used) };
  }

  /** The chunks so far; the next part follows them. */
  take(): TranscriptPart {
    const part = this.view();
    this.firstEvent += this.eventCount;
    this.eventCount = 0;
    // The next part becomes about as long: growing by doubling takes three times the time.
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

type Waiting = { readonly part: RunPart; readonly settle: (isStored: boolean) => void };

/** The maximum that may wait for a slow disk; more is not kept. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;
const BATCH_BYTES = 1024 * 1024;
const RETRY_MS = 1_000;

/** Stores parts of transcripts in the background, in batches. */
export class PartWriter {
  readonly #store: Store;
  readonly #reserve: Pick<DiskReserve, "isLow">;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  readonly #behind: WriteBehind;
  readonly #written = new Condition();

  constructor(store: Store, log: Log, clock: Clock, reserve: Pick<DiskReserve, "isLow"> = { isLow: false }) {
    this.#reserve = reserve;
    this.#store = store;
    this.#behind = new WriteBehind({
      clock,
      delayMs: 0,
      retryMs: RETRY_MS,
      hasWaiting: () => this.#waiting.length > 0,
      write: () => this.#write(),
      onFailure: (err) =>
        log.error({ err, parts: this.#waiting.length }, "could not store parts of transcripts"),
    });
  }

  /** Whether generators without a caller should wait. */
  get isFull(): boolean {
    return this.#waitingBytes > MAX_WAITING_BYTES / 4;
  }

  /** Resolves with whether the part is stored. One that is not owed is refused when the disk is nearly full. */
  async write(key: RunKey, part: TranscriptPart, isOwed = true): Promise<boolean> {
    if (!isOwed && this.#reserve.isLow) return false;
    const isTooMuch = this.#waitingBytes + part.bytes.length > MAX_WAITING_BYTES;
    if (isTooMuch && this.#waitingBytes > 0) return false;
    this.#waitingBytes += part.bytes.length;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.push({ part: { ...key, ...part }, settle: resolve });
    this.#behind.note();
    return await promise;
  }

  /** Stores what waits; gives up if the storage does not answer. */
  async stop(): Promise<void> {
    await this.#behind.settle(0, () => this.#settle(this.#waiting.length, false));
  }

  /** Resolves when it is not full. */
  async untilRoom(): Promise<void> {
    while (this.isFull) await this.#written.wait();
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      let bytes = 0;
      const end = this.#waiting.findIndex(({ part }) => (bytes += part.bytes.length) > BATCH_BYTES) + 1;
      const count = end || this.#waiting.length;
      await this.#store.transcripts.write(this.#waiting.slice(0, count).map(({ part }) => part));
      this.#settle(count, true);
    }
  }

  /** The first so many are stored, or will never be. */
  #settle(count: number, isStored: boolean): void {
    for (const { part, settle } of this.#waiting.splice(0, count)) {
      this.#waitingBytes -= part.bytes.length;
      settle(isStored);
    }
    this.#written.notify();
  }
}

/** More at once are read no faster, and every other read of the database would wait behind them. */
const LIMITS = { total: 4, perKey: 2, waiting: 20_000, waitMs: 30_000 };
const OVERLOADED = {
  message: "More transcripts are being read than the database can keep up with; try again shortly.",
  headers: { "retry-after": "5" },
};

/** Reads stored parts of transcripts, a few at a time; apps take turns. */
export class PartReader {
  readonly #store: Pick<Store, "transcripts">;
  readonly #lane: FairLane;

  constructor(store: Pick<Store, "transcripts">, clock: Clock) {
    this.#store = store;
    this.#lane = new FairLane(LIMITS, clock);
  }

  /** The part that holds the event after `after`; if that one is gone, the first later part. */
  async next({ appNumber, id }: RunKey, after: number): Promise<TranscriptPart | null> {
    return await this.#inTurn(appNumber, () => this.#store.transcripts.next({ appNumber, id, after }));
  }

  /** The number of the last stored event; 0 if none is stored. */
  async last({ appNumber, id }: RunKey): Promise<number> {
    return await this.#inTurn(appNumber, () => this.#store.transcripts.last({ appNumber, id }));
  }

  #inTurn<Result>(appNumber: number, read: () => Promise<Result>): Promise<Result> {
    return this.#lane.run(String(appNumber), () => new AppError("overloaded", OVERLOADED), read);
  }
}
