type Waiting<Item, Result> = {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

/** How large one batch may be, and who shares it. */
export type BatchLimits<Item> = {
  readonly maxItems: number;
  /** Of all items of a batch together; one is taken whatever it weighs. */
  readonly maxWeight?: number;
  readonly weightOf?: (item: Item) => number;
  /** Whose an item is: all take turns. By default all items are one's. */
  readonly keyOf?: (item: Item) => number;
};

/**
 * One operation at a time over all that has gathered while the last one ran: alone, an item waits for nothing;
 * under load the operation's own time makes the batches. Of one key items stay in their order. A key with many items, or
 * heavy ones, makes others wait for a batch, not for all of them.
 */
export class Batcher<Item, Result> {
  readonly #run: (items: readonly Item[]) => Promise<Result>;
  readonly #limits: Required<BatchLimits<Item>>;
  /** In the order in which keys have their turn. */
  readonly #queues = new Map<number, Waiting<Item, Result>[]>();
  #working: Promise<void> | null = null;

  constructor(run: (items: readonly Item[]) => Promise<Result>, limits: BatchLimits<Item>) {
    this.#run = run;
    this.#limits = { maxWeight: Number.POSITIVE_INFINITY, weightOf: () => 0, keyOf: () => 0, ...limits };
  }

  /** Resolves with what the operation over the item's batch gave; rejects with what it threw. */
  add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const key = this.#limits.keyOf(item);
    const waiting = { item, resolve, reject };
    const queue = this.#queues.get(key);
    if (queue) queue.push(waiting);
    else this.#queues.set(key, [waiting]);
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
    while (this.#queues.size > 0) {
      const batch = this.#next();
      try {
        const result = await this.#run(batch.map(({ item }) => item));
        for (const { resolve } of batch) resolve(result);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#working = null;
  }

  /** One of each key in turn, until it is full. */
  #next(): Waiting<Item, Result>[] {
    const { maxItems, maxWeight, weightOf } = this.#limits;
    const batch: Waiting<Item, Result>[] = [];
    let weight = 0;
    // A key that is put at the end of the line comes again in the same loop.
    for (const [key, queue] of this.#queues) {
      weight += weightOf(queue[0]!.item);
      if (batch.length === maxItems || (batch.length > 0 && weight > maxWeight)) break;
      batch.push(queue.shift()!);
      this.#queues.delete(key);
      if (queue.length > 0) this.#queues.set(key, queue);
    }
    return batch;
  }
}
