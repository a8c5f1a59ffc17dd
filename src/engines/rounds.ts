import type { Clock, Timer } from "../kit/clock.ts";
import { ROUND_MS } from "./pulse.ts";

/**
 * Calls for a look at the replicas once a second, and never twice without having listened to them in between: after
 * a time in which this process slept, or was busy, their answers are there and unread.
 */
export class Rounds {
  readonly #clock: Clock;
  readonly #visit: () => void;
  #timer: Timer | null = null;
  #hasListened = true;

  constructor(clock: Clock, visit: () => void) {
    this.#clock = clock;
    this.#visit = visit;
  }

  start(): void {
    this.#timer ??= this.#clock.every(ROUND_MS, () => this.#go());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #go(): void {
    if (!this.#hasListened) return;
    this.#hasListened = false;
    // Behind the next look at all connections.
    setImmediate(() => (this.#hasListened = true));
    this.#visit();
  }
}
