import { Bell } from "../kit/bell.ts";
import type { Clock } from "../kit/clock.ts";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import type { Log } from "../kit/log.ts";
import { WriteBehind } from "../kit/write-behind.ts";
import type { RunKey } from "../model/run.ts";
import type { RunPart, TranscriptPart } from "../model/transcript-part.ts";
import type { Store } from "../store/store.ts";

type Waiting = { readonly part: RunPart; readonly settle: (isStored: boolean) => void };

/** What may wait for a disk that is slower than the generators; what comes beyond it is not kept. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;
const BATCH_BYTES = 1024 * 1024;
const RETRY_MS = 1_000;

/** Writes parts of transcripts behind, those that wait together; nothing a caller waits for waits for it. */
export class PartWriter {
  readonly #store: Store;
  readonly #reserve: Pick<DiskReserve, "isLow">;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  readonly #behind: WriteBehind;
  readonly #written = new Bell();

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
    this.#behind.note();
    return await promise;
  }

  /** Stores what waits, or gives it up where the storage does not answer. */
  async stop(): Promise<void> {
    await this.#behind.settle(0, () => this.#settle(this.#waiting.length, false));
  }

  /** Resolves when it is not full, or not any more. */
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
    this.#written.ring();
  }
}
