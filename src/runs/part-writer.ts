import { Bell } from "../kit/bell.ts";
import type { Clock } from "../kit/clock.ts";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import type { Log } from "../kit/log.ts";
import { pause } from "../kit/pause.ts";
import type { TranscriptPart } from "../model/transcript-part.ts";
import type { Store } from "../store/store.ts";

/** A run as the store knows it. */
export type RunKey = { readonly appNumber: number; readonly id: string };

type RunPart = RunKey & TranscriptPart;
type Waiting = { readonly part: RunPart; readonly settle: (isStored: boolean) => void };

/** What may wait for a disk that is slower than the generators; what comes beyond it is not kept. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;
const BATCH_BYTES = 1024 * 1024;
const RETRY_MS = 1_000;

/** Writes parts of transcripts behind, those that wait together; nothing a caller waits for waits for it. */
export class PartWriter {
  readonly #store: Store;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #reserve: Pick<DiskReserve, "isLow">;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  #isStopping = false;
  readonly #written = new Bell();

  constructor(store: Store, log: Log, clock: Clock, reserve: Pick<DiskReserve, "isLow"> = { isLow: false }) {
    this.#reserve = reserve;
    this.#store = store;
    this.#log = log;
    this.#clock = clock;
  }

  /** Whether somebody who can wait should. */
  get isFull(): boolean {
    return this.#waitingBytes > MAX_WAITING_BYTES / 4;
  }

  /** Resolves with whether the part is stored. One that nobody was promised leaves the disk's reserve to others. */
  async write(key: RunKey, part: TranscriptPart, isOwed = true): Promise<boolean> {
    if (!isOwed && this.#reserve.isLow) return false;
    const isTooMuch = this.#waitingBytes + part.bytes.length > MAX_WAITING_BYTES;
    if (isTooMuch && this.#waitingBytes > 0) return false;
    this.#waitingBytes += part.bytes.length;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.push({ part: { ...key, ...part }, settle: resolve });
    this.#writing ??= this.#work();
    return await promise;
  }

  /** Stores what waits, or gives it up where the storage does not answer. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#writing;
  }

  /** Resolves when it is not full, or not any more. */
  async untilRoom(): Promise<void> {
    while (this.isFull) await this.#written.wait();
  }

  async #work(): Promise<void> {
    // What comes in the same tick joins the first write.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#writeSome();
    this.#writing = null;
  }

  async #writeSome(): Promise<void> {
    let bytes = 0;
    const end = this.#waiting.findIndex(({ part }) => (bytes += part.bytes.length) > BATCH_BYTES) + 1;
    const batch = this.#waiting.splice(0, end || this.#waiting.length);
    const isStored = await this.#insist(batch.map(({ part }) => part));
    for (const { part, settle } of batch) {
      this.#waitingBytes -= part.bytes.length;
      settle(isStored);
    }
    this.#written.ring();
  }

  /** Until it works: meanwhile others wait, within bounds. */
  async #insist(parts: readonly RunPart[]): Promise<boolean> {
    for (;;) {
      try {
        await this.#store.transcripts.write(parts);
        return true;
      } catch (error) {
        this.#log.error({ err: error, parts: parts.length }, "parts of transcripts could not be stored");
        if (this.#isStopping) return false;
        await pause(this.#clock, RETRY_MS);
      }
    }
  }
}
