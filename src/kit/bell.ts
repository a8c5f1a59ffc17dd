/** Wakes whoever waits for something to happen. */
export class Bell {
  #waiting = new Set<() => void>();

  /** Whether anybody waits. */
  get isAwaited(): boolean {
    return this.#waiting.size > 0;
  }

  /** Resolves when it rings next, or the signal says that nobody waits any more. */
  async wait(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener("abort", wake);
    });
  }

  ring(): void {
    for (const wake of this.#waiting) wake();
  }
}
