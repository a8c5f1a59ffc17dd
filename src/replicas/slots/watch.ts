import type { Clock, Timer } from "../../kit/clock.ts";

/** Short enough that a timeout is told "at once", long enough to cost nothing. */
const TICK_MS = 10;
const IDLE_TICKS = 100;

/**
 * Looks after the calls of a pool on one timer for all of them: a timer per call would cost more than many a
 * call itself. Runs while there is anything to look after, and a second longer.
 */
export class Watch {
  /** How many calls have arrived so far. */
  arrivals = 0;
  readonly #clock: Clock;
  readonly #look: () => boolean;
  #timer: Timer | null = null;
  #idleTicks = 0;

  /** `look` says whether there is still something to look after. */
  constructor(clock: Clock, look: () => boolean) {
    this.#clock = clock;
    this.#look = look;
  }

  /** Notes an arrival; starts looking if nobody is. */
  wake(): void {
    this.arrivals += 1;
    this.#timer ??= this.#clock.every(TICK_MS, () => this.#tick());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #tick(): void {
    this.#idleTicks = this.#look() ? 0 : this.#idleTicks + 1;
    if (this.#idleTicks >= IDLE_TICKS) this.stop();
  }
}
