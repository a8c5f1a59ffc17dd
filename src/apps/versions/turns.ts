/** Lets pieces of work on one thing happen one after the other, in the order they came. */
export class Turns<Key> {
  readonly #last = new Map<Key, Promise<unknown>>();

  /** Resolves or rejects as the work does, whatever became of the work before it. */
  async take<Result>(key: Key, work: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(key);
    const mine = before ? before.then(work, work) : work();
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}
