/** Counts the milliseconds in which at least one replica was ready: only those count against a waiting call. */
export class ReadyClock {
  #countedMs = 0;
  #readySince: number | null = null;

  set(isReady: boolean, now: number): void {
    if (isReady === (this.#readySince !== null)) return;
    this.#countedMs = this.elapsed(now);
    this.#readySince = isReady ? now : null;
  }

  elapsed(now: number): number {
    return this.#countedMs + (this.#readySince === null ? 0 : now - this.#readySince);
  }
}
