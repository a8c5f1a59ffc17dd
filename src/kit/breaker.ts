import type { Clock, Timer } from "./clock.ts";

export type BreakerParts = {
  readonly clock: Pick<Clock, "after">;
  /** Asks for something small. Resolves at an answer of any kind; rejects when it has waited long enough. */
  readonly probe: () => Promise<unknown>;
  /** Whether an error of a call means that no answer came; any other error is an answer. */
  readonly isSilence: (error: unknown) => boolean;
  /** What is told to a call that is given up (`wasAsked`), and to one that is refused at once. */
  readonly refusal: (wasAsked: boolean) => Error;
  /** The state has changed. Once open, results of abandoned calls are ignored. */
  readonly onChange: (isOpen: boolean) => void;
};

/** Silence is counted in steps of this. */
export const TICK_MS = 250;
/** After this many ticks without an answer, 2 s, a probe finds out whether it is only slow. */
const ASK_TICKS = 8;
/** After this many, 4.25 s, it counts as silent. Together with the rest of a call that is less than 5 s. */
const OPEN_TICKS = 17;
/** While it is open, the next probe starts this long after the last one failed. */
export const PROBE_EVERY_MS = 1_000;

/**
 * Guards something that may fall silent: closed → open → closed.
 *
 * Closed, calls go through. It opens when calls wait and none was answered for 4.25 s, nor was a probe: one slow call
 * beside others that are answered opens nothing. Open, the calls that waited are given up and new ones are refused at
 * once. One probe at a time goes on asking; its first answer closes it.
 */
export class Breaker {
  readonly #parts: BreakerParts;
  readonly #waiting = new Set<(error: Error) => void>();
  #isOpen = false;
  #isStopped = false;
  #isProbing = false;
  #hasHeard = false;
  /** A tick is over, and an answer that came meanwhile may still be read. */
  #isReading = false;
  #silentTicks = 0;
  #timer: Timer | null = null;

  constructor(parts: BreakerParts) {
    this.#parts = parts;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Does the work, unless it is open; rejects with the refusal if it opens meanwhile. */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#isOpen) return Promise.reject(this.#parts.refusal(false));
    const call = Promise.withResolvers<Result>();
    this.#waiting.add(call.reject);
    this.#arm();
    void this.#attend(work, call);
    return call.promise;
  }

  /** Stays open if it opens, or is open; it watches over what is under way until that has ended. */
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
    if (this.#silentTicks === ASK_TICKS) this.#probe();
    // The next one only after a turn of the event loop, in which an answer may be read: a time in which this process
    // itself stood still is one tick, however long it was.
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
    this.#probe();
  }

  #probe(): void {
    if (this.#isProbing || (this.#isOpen && this.#isStopped)) return;
    this.#isProbing = true;
    void this.#askForAnswer();
  }

  async #askForAnswer(): Promise<void> {
    try {
      await this.#parts.probe();
      this.#hasHeard = true;
    } catch {
      if (this.#isOpen && !this.#isStopped) {
        this.#timer = this.#parts.clock.after(PROBE_EVERY_MS, () => this.#probe());
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
