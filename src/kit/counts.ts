/** How often something is being done for each of many things. */
export class Counts<Key> {
  readonly #counts = new Map<Key, number>();

  has(key: Key): boolean {
    return this.#counts.has(key);
  }

  /** How often it is being done now. */
  of(key: Key): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Counts while the work is under way. */
  async during<T>(key: Key, work: () => Promise<T>): Promise<T> {
    this.#counts.set(key, this.of(key) + 1);
    try {
      return await work();
    } finally {
      const others = this.of(key) - 1;
      if (others > 0) this.#counts.set(key, others);
      else this.#counts.delete(key);
    }
  }
}
