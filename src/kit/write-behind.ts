import { type Clock, pause, type Timer } from "./clock.ts";

export type WriteBehindParts = {
  readonly clock: Clock;
  /** A write begins at most this long after `note`; 0 means at once. */
  readonly delayMs: number;
  readonly retryMs: number;
  readonly hasWaiting: () => boolean;
  /** Writes what waits; if it rejects, the rest still waits. */
  readonly write: () => Promise<void>;
  readonly onFailure: (error: unknown) => void;
};

/** Decides when gathered data is written: shortly after the first item, one write at a time, with retries. */
export class WriteBehind {
  readonly #parts: WriteBehindParts;
  #timer: Timer | null = null;
  #writing: Promise<void> | null = null;
  #hasFailed = false;

  constructor(parts: WriteBehindParts) {
    this.#parts = parts;
  }

  /** Whether no write is in progress, and the last one did not fail. */
  get isFree(): boolean {
    return this.#writing === null && !this.#hasFailed;
  }

  /** There is something to write. */
  note(): void {
    if (this.#timer !== null) return;
    const { clock, delayMs, retryMs } = this.#parts;
    if (delayMs === 0 && !this.#hasFailed) this.begin();
    else this.#timer = clock.after(this.#hasFailed ? retryMs : delayMs, () => this.begin());
  }

  /** Writes now, unless a write is in progress. */
  begin(): void {
    this.cancel();
    this.#writing ??= this.#write();
  }

  /** Resolves when everything is written, or a write has failed. */
  async flush(): Promise<void> {
    // A write in progress may not take everything.
    if (this.#writing) await this.#writing;
    this.begin();
    await this.#writing;
  }

  /** Resolves when nothing waits; after failures for `patienceMs`, gives up. */
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

  /** No write begins by itself before the next `note`. */
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
