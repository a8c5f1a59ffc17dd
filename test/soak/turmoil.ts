/** Whether a fault is under way: what a caller may meet depends on it. */
export class Turmoil {
  #begun = 0;
  #open = 0;
  /** How often each kind of fault was done. */
  readonly counts = new Map<string, number>();

  get total(): number {
    return this.#begun;
  }

  /** Does a fault; it is over when its promise is kept. */
  async during(kind: string, act: () => Promise<void>): Promise<void> {
    this.#begun += 1;
    this.#open += 1;
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    try {
      await act();
    } finally {
      this.#open -= 1;
    }
  }

  /** Begins to watch; the answer tells whether there was no fault from then until it is asked. */
  watch(): () => boolean {
    const wasCalm = this.#open === 0;
    const begun = this.#begun;
    return () => wasCalm && this.#open === 0 && this.#begun === begun;
  }
}
