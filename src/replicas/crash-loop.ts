import { backoffMs } from "../kit/backoff.ts";
import type { InitFailure } from "../engines/engine.ts";

const BASE_MS = 250;
const MAX_MS = 30_000;

/** Decides when a replica may be started again after one that failed. The first crash costs no wait. */
export class CrashLoop {
  #failures = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #notBefore = 0;
  /** Why the app could not start, as long as its latest start failed. */
  initFailure: InitFailure | null = null;

  /** The latest replica to start or to be called failed. */
  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** A replica that was started at `startedAt` died on its own, or could not start. */
  record(startedAt: number, now: number, initFailure: InitFailure | null): void {
    // One of those that were there at the last failure already: several at once are one failure.
    if (startedAt < this.#failedAt) return;
    this.initFailure = initFailure;
    this.#failures += 1;
    this.#failedAt = now;
    const isFirst = this.#failures === 1 && !initFailure;
    this.#notBefore = isFirst ? now : now + backoffMs(this.#failures, BASE_MS, MAX_MS);
  }

  /** A replica has answered a call: the app is well. */
  forgive(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  waitMs(now: number): number {
    return Math.max(0, this.#notBefore - now);
  }
}
