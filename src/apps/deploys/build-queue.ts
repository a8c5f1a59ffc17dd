type Waiting = { readonly appNumber: number; readonly begin: () => void };

/** Lets builds have their turn: those of one app one after the other, and only so many at once over all. */
export class BuildQueue {
  readonly #maxAtOnce: number;
  readonly #busy = new Set<number>();
  #waiting: Waiting[] = [];

  constructor(maxAtOnce: number) {
    this.#maxAtOnce = maxAtOnce;
  }

  /** Whether a build of that app would have to wait. */
  isFull(appNumber: number): boolean {
    return this.#busy.size >= this.#maxAtOnce || this.#busy.has(appNumber);
  }

  /** Does the work when its turn has come; rejects with the signal's reason when nobody waits for that any more. */
  async run<T>(appNumber: number, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#turn(appNumber, signal);
    try {
      return await work();
    } finally {
      this.#busy.delete(appNumber);
      this.#beginNext();
    }
  }

  async #turn(appNumber: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = { appNumber, begin: resolve };
    const leave = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", leave);
    this.#waiting.push(waiting);
    this.#beginNext();
    await promise.finally(() => signal.removeEventListener("abort", leave));
  }

  /** Whoever has waited longest goes first, unless its app is busy. */
  #beginNext(): void {
    for (const waiting of this.#waiting) {
      if (this.isFull(waiting.appNumber)) continue;
      this.#busy.add(waiting.appNumber);
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      waiting.begin();
    }
  }
}
