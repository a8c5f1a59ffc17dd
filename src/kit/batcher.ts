type Waiting<Item, Result> = {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * One operation at a time over all that has gathered while the last one ran: alone, an item waits for nothing;
 * under load the operation's own time makes the batches.
 */
export class Batcher<Item, Result> {
  readonly #run: (items: readonly Item[]) => Promise<Result>;
  readonly #maxItems: number;
  #waiting: Waiting<Item, Result>[] = [];
  #working: Promise<void> | null = null;

  constructor(run: (items: readonly Item[]) => Promise<Result>, maxItems: number) {
    this.#run = run;
    this.#maxItems = maxItems;
  }

  /** Resolves with what the operation over the item's batch gave; rejects with what it threw. */
  add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.#waiting.push({ item, resolve, reject });
    this.#working ??= this.#work();
    return promise;
  }

  /** Resolves when nothing is under way. */
  async settle(): Promise<void> {
    while (this.#working) await this.#working;
  }

  async #work(): Promise<void> {
    // What comes in the same turn of the event loop joins the first batch.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#maxItems);
      try {
        const result = await this.#run(batch.map(({ item }) => item));
        for (const { resolve } of batch) resolve(result);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#working = null;
  }
}
