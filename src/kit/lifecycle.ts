/** Starts parts in the order they are written and stops them in reverse, past failures. */
export class Lifecycle {
  readonly #stops: { name: string; stop: () => Promise<void> | void }[] = [];

  /** Starts one part; what it needs for stopping is remembered before the next one starts. */
  async start<T>(
    name: string,
    start: () => Promise<T> | T,
    stop: (part: T) => Promise<void> | void,
  ): Promise<T> {
    const part = await start();
    this.#stops.push({ name, stop: () => stop(part) });
    return part;
  }

  /** Stops everything; every part gets its turn, then the first failures are thrown together. */
  async stop(): Promise<void> {
    const failures: Error[] = [];
    for (let entry = this.#stops.pop(); entry; entry = this.#stops.pop()) {
      try {
        await entry.stop();
      } catch (error) {
        failures.push(new Error(`stopping ${entry.name}`, { cause: error }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, "some parts did not stop cleanly");
  }
}
