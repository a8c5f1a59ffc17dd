import type { Clock, Timer } from "../../kit/clock.ts";

/** Short enough for prompt timeouts, long enough to cost nothing. */
const TICK_MS = 10;
const IDLE_TICKS = 100;

/** Checks all calls of a pool on one timer, because timers per call are costly; stops after an idle second. */
export class Watch {
  /** How many calls have arrived so far. */
  arrivals = 0;
  readonly #clock: Clock;
  readonly #look: () => boolean;
  #timer: Timer | null = null;
  #idleTicks = 0;

  /** `look` returns whether there are still calls. */
  constructor(clock: Clock, look: () => boolean) {
    this.#clock = clock;
    this.#look = look;
  }

  /** Counts an arrival, and starts the timer. */
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
