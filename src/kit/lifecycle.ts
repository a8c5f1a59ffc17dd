/** Starts parts in the order they are written and stops them in reverse, past failures. */
export class Lifecycle {
  readonly #stops: { name: string; stop: () => Promise<void> | void }[] = [];
  #starting: Promise<unknown> = Promise.resolve();
  #stopping: Promise<void> | null = null;

  /** Starts one part; what it needs for stopping is remembered before the next one starts. */
  async start<T>(
    name: string,
    start: () => Promise<T> | T,
    stop: (part: T) => Promise<void> | void,
  ): Promise<T> {
    if (this.#stopping) throw new Error(`${name} was not started: everything is being stopped`);
    const starting = (async () => {
      const part = await start();
      this.#stops.push({ name, stop: () => stop(part) });
      return part;
    })();
    this.#starting = starting;
    return await starting;
  }

  /**
   * Stops everything, once however often it is called; a part still starting is waited for, every part
   * gets its turn, then all failures are thrown together.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  async #stopAll(): Promise<void> {
    // Whoever called start learns of its failure there; here only its end matters.
    await this.#starting.catch(() => {});
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
