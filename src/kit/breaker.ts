import type { Clock, Timer } from "./clock.ts";

export type BreakerParts = {
  readonly clock: Pick<Clock, "after">;
  /** A small request. Resolves at any answer; rejects after a while without one. */
  readonly probe: () => Promise<unknown>;
  /** Whether an error means that no answer came; any other error is an answer. */
  readonly isSilence: (error: unknown) => boolean;
  /** The error for a call that is given up (`wasAsked`), or refused at once. */
  readonly refusal: (wasAsked: boolean) => Error;
  /** Once open, results of abandoned calls are ignored. */
  readonly onChange: (isOpen: boolean) => void;
};

/** The unit in which silence is counted. */
export const TICK_MS = 250;
/** 2 s without an answer: a probe finds out whether it is only slow. */
const ASK_TICKS = 8;
/** 4.25 s: it counts as silent. With the rest of a call, that is less than 5 s. */
const OPEN_TICKS = 17;
/** While it is open, the next probe starts this long after the last one failed. */
export const PROBE_EVERY_MS = 1_000;

/**
 * Guards a service that may fall silent: closed → open → closed. It opens when calls wait, and neither a call nor a probe
 * was answered for 4.25 s. Open, it gives up waiting calls and refuses new ones at once, until a probe is answered.
 */
export class Breaker {
  readonly #parts: BreakerParts;
  readonly #waiting = new Set<(error: Error) => void>();
  #isOpen = false;
  #isStopped = false;
  #isProbing = false;
  #hasHeard = false;
  /** A tick is over; an answer that arrived meanwhile may still be read. */
  #isReading = false;
  #silentTicks = 0;
  #timer: Timer | null = null;

  constructor(parts: BreakerParts) {
    this.#parts = parts;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Does the work; rejects with the refusal if it is open, or opens meanwhile. */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#isOpen) return Promise.reject(this.#parts.refusal(false));
    const call = Promise.withResolvers<Result>();
    this.#waiting.add(call.reject);
    this.#arm();
    void this.#attend(work, call);
    return call.promise;
  }

  /** Stays open from now on if it opens; still watches the calls in progress. */
  stop(): void {
    this.#isStopped = true;
    if (this.#isOpen) this.#timer?.cancel();
  }

  async #attend<Result>(
    work: () => Promise<Result>,
    { resolve, reject }: PromiseWithResolvers<Result>,
  ): Promise<void> {
    try {
      const result = await work();
      this.#hear(reject, true);
      resolve(result);
    } catch (error) {
      this.#hear(reject, !this.#parts.isSilence(error));
      reject(error);
    }
  }

  /** The result of a call that was given up is ignored: it may only be the error of a dropped connection. */
  #hear(call: (error: Error) => void, isAnswer: boolean): void {
    if (this.#waiting.delete(call) && isAnswer) this.#hasHeard = true;
  }

  #arm(): void {
    if (this.#isReading) return;
    this.#timer ??= this.#parts.clock.after(TICK_MS, () => this.#tick());
  }

  #tick(): void {
    this.#timer = null;
    this.#silentTicks = this.#hasHeard || this.#waiting.size === 0 ? 0 : this.#silentTicks + 1;
    this.#hasHeard = false;
    if (this.#waiting.size === 0) return;
    if (this.#silentTicks === ASK_TICKS) void this.#probe();
    // After a turn of the event loop, which reads answers: a pause of this process counts as one tick.
    if (this.#silentTicks < OPEN_TICKS) {
      this.#isReading = true;
      setImmediate(() => {
        this.#isReading = false;
        this.#arm();
      });
    } else this.#open();
  }

  #open(): void {
    this.#isOpen = true;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const reject of waiting) reject(this.#parts.refusal(true));
    this.#parts.onChange(true);
    void this.#probe();
  }

  async #probe(): Promise<void> {
    if (this.#isProbing || (this.#isOpen && this.#isStopped)) return;
    this.#isProbing = true;
    try {
      await this.#parts.probe();
      this.#hasHeard = true;
    } catch {
      if (this.#isOpen && !this.#isStopped) {
        this.#timer = this.#parts.clock.after(PROBE_EVERY_MS, () => void this.#probe());
      }
      return;
    } finally {
      this.#isProbing = false;
    }
    if (this.#isOpen) this.#close();
  }

  #close(): void {
    this.#isOpen = false;
    this.#silentTicks = 0;
    this.#timer?.cancel();
    this.#timer = null;
    this.#parts.onChange(false);
  }
}
