/** Keeps the first of its items at hand while they come, go and change their order, each in logarithmic time. */
export class Heap<Item> {
  /** Each item is before those at twice its index plus one and plus two. */
  readonly #items: Item[] = [];
  readonly #indexes = new Map<Item, number>();
  readonly #isBefore: (a: Item, b: Item) => boolean;

  constructor(isBefore: (a: Item, b: Item) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#items.length;
  }

  get first(): Item | undefined {
    return this.#items[0];
  }

  /** All of them; only the first one's place is known. */
  values(): Iterable<Item> {
    return this.#items;
  }

  /** An item that is not here yet. */
  add(item: Item): void {
    this.#rise(item, this.#items.length);
  }

  /** To be called whenever an item's place among the others may be another. */
  moved(item: Item): void {
    const index = this.#indexes.get(item);
    if (index !== undefined) this.#settle(item, index);
  }

  /** Idempotent. */
  remove(item: Item): void {
    const index = this.#indexes.get(item);
    if (index === undefined) return;
    this.#indexes.delete(item);
    const last = this.#items.pop();
    if (last !== undefined && last !== item) this.#settle(last, index);
  }

  #settle(item: Item, index: number): void {
    this.#sink(item, this.#rise(item, index));
  }

  #rise(item: Item, from: number): number {
    let index = from;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const other = this.#items[above] as Item;
      if (!this.#isBefore(item, other)) break;
      this.#put(other, index);
      index = above;
    }
    this.#put(item, index);
    return index;
  }

  #sink(item: Item, from: number): void {
    let index = from;
    for (;;) {
      let below = 2 * index + 1;
      if (below >= this.#items.length) break;
      const isRight = below + 1 < this.#items.length;
      if (isRight && this.#isBefore(this.#items[below + 1] as Item, this.#items[below] as Item)) below += 1;
      const other = this.#items[below] as Item;
      if (!this.#isBefore(other, item)) break;
      this.#put(other, index);
      index = below;
    }
    this.#put(item, index);
  }

  #put(item: Item, index: number): void {
    this.#items[index] = item;
    this.#indexes.set(item, index);
  }
}
