import { type Clock, pause, type Timer } from "./clock.ts";

export type WriteBehindParts = {
  readonly clock: Clock;
  /** A write begins at most this long after something was noted; 0 means at once. */
  readonly delayMs: number;
  /** After a write that failed. */
  readonly retryMs: number;
  readonly hasWaiting: () => boolean;
  /** Writes what waits now; what it could not write still waits when it rejects. */
  readonly write: () => Promise<void>;
  readonly onFailure: (error: unknown) => void;
};

/**
 * Decides when gathered data is written: shortly after the first item arrived, one write at a time, and again after a
 * pause if a write failed. The owner decides what is waiting and how much of it one write takes.
 */
export class WriteBehind {
  readonly #parts: WriteBehindParts;
  #timer: Timer | null = null;
  #writing: Promise<void> | null = null;
  #hasFailed = false;

  constructor(parts: WriteBehindParts) {
    this.#parts = parts;
  }

  /** A write may begin now: none is in progress, and the last one did not fail. */
  get isFree(): boolean {
    return this.#writing === null && !this.#hasFailed;
  }

  /** Something waits. */
  note(): void {
    if (this.#timer !== null) return;
    const { clock, delayMs, retryMs } = this.#parts;
    if (delayMs === 0 && !this.#hasFailed) this.begin();
    else this.#timer = clock.after(this.#hasFailed ? retryMs : delayMs, () => this.begin());
  }

  /** Writes now, unless a write is under way. */
  begin(): void {
    this.cancel();
    this.#writing ??= this.#write();
  }

  /** Resolves when all that waits now is written, or could not be. */
  async flush(): Promise<void> {
    // What a write under way does not take comes with the next.
    if (this.#writing) await this.#writing;
    this.begin();
    await this.#writing;
  }

  /** Resolves when nothing waits; what cannot be written for longer than `patienceMs` is given up. */
  async settle(patienceMs: number, giveUp: () => void): Promise<void> {
    const { clock, retryMs, hasWaiting } = this.#parts;
    const deadline = clock.monotonic() + patienceMs;
    while (hasWaiting() || this.#writing) {
      this.begin();
      await this.#writing;
      if (!this.#hasFailed) continue;
      if (clock.monotonic() >= deadline) giveUp();
      else await pause(clock, retryMs / 10);
    }
    this.cancel();
  }

  /** Nothing is written by itself until something is noted again. */
  cancel(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  async #write(): Promise<void> {
    const { delayMs, write, onFailure, hasWaiting } = this.#parts;
    try {
      // What comes in the same tick joins the write.
      if (delayMs === 0) await Promise.resolve();
      await write();
      this.#hasFailed = false;
    } catch (error) {
      this.#hasFailed = true;
      onFailure(error);
      // Items noted in the meantime would trigger the retry too soon.
      this.cancel();
    }
    this.#writing = null;
    if (hasWaiting()) this.note();
  }
}
