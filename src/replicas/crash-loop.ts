import { backoffMs } from "../kit/backoff.ts";
import type { InitFailure } from "./engine.ts";

const BASE_MS = 250;
const MAX_MS = 30_000;

/** Decides when a replica may be started again after one that failed. The first crash costs no wait. */
export class CrashLoop {
  #failures = 0;
  #notBefore = 0;
  /** Why the app could not start, as long as its latest start failed. */
  initFailure: InitFailure | null = null;

  /** A replica died on its own, or could not start. */
  record(now: number, initFailure: InitFailure | null): void {
    this.#failures += 1;
    this.initFailure = initFailure;
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
