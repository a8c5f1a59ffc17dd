type Waiting<Item, Result> = {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
};

/** How large a batch may be, and who shares it. */
export type BatchLimits<Item> = {
  readonly maxItems: number;
  /** Of all items of a batch; a single item may be heavier. */
  readonly maxWeight?: number;
  readonly weightOf?: (item: Item) => number;
  /** Keys take turns. By default, all items have the same. */
  readonly keyOf?: (item: Item) => number;
};

/**
 * Runs one operation at a time over the items that have gathered during the last one; a single item does not wait. Items of
 * a key stay in order. A key with many or heavy items makes others wait for one batch only.
 */
export class Batcher<Item, Result> {
  readonly #run: (items: readonly Item[]) => Promise<Result>;
  readonly #limits: Required<BatchLimits<Item>>;
  /** In the order in which keys have their turn. */
  readonly #queues = new Map<number, Waiting<Item, Result>[]>();
  #isWorking = false;

  constructor(run: (items: readonly Item[]) => Promise<Result>, limits: BatchLimits<Item>) {
    this.#run = run;
    this.#limits = { maxWeight: Number.POSITIVE_INFINITY, weightOf: () => 0, keyOf: () => 0, ...limits };
  }

  /** Resolves or rejects as the operation over the item's batch does. */
  add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const key = this.#limits.keyOf(item);
    const waiting = { item, resolve, reject };
    const queue = this.#queues.get(key);
    if (queue) queue.push(waiting);
    else this.#queues.set(key, [waiting]);
    if (!this.#isWorking) void this.#work();
    return promise;
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    // Items of the same turn of the event loop join the first batch.
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
    this.#isWorking = false;
  }

  /** One item of each key in turn, until the batch is full. */
  #next(): Waiting<Item, Result>[] {
    const { maxItems, maxWeight, weightOf } = this.#limits;
    const batch: Waiting<Item, Result>[] = [];
    let weight = 0;
    // A key that is inserted again is visited again by this loop.
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
