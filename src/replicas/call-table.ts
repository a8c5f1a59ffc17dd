import type { Call } from "./call.ts";

/** Room for so many ended calls before the table is made anew. */
const MAX_GAP = 1024;

/**
 * Calls by their ids on a wire, which grow, oldest first. Not a `Map`: when one makes itself anew it leaves its old
 * table behind with what was in it and a pointer to the new one. Once such a table is old, the young generation's
 * collector takes all of them for living; every call then survived to the next full collection, at 13 µs a call.
 */
export class CallTable {
  #items: (Call | undefined)[] = [];
  /** The id of the first place. */
  #firstId = 0;
  /** Places at the beginning whose calls have gone. */
  #gap = 0;
  size = 0;

  get(id: number): Call | undefined {
    return this.#items[id - this.#firstId];
  }

  has(id: number): boolean {
    return this.get(id) !== undefined;
  }

  /** Whether that call is here, under the id it has now. */
  holds(call: Call): boolean {
    return this.get(call.wireId) === call;
  }

  /** Ids grow from call to call. */
  set(id: number, call: Call): void {
    if (this.size === 0) {
      this.#items.length = 0;
      this.#gap = 0;
      this.#firstId = id;
    }
    this.#items[id - this.#firstId] = call;
    this.size += 1;
  }

  delete(id: number): void {
    if (!this.has(id)) return;
    this.#items[id - this.#firstId] = undefined;
    this.size -= 1;
    while (this.#gap < this.#items.length && this.#items[this.#gap] === undefined) this.#gap += 1;
    if (this.#gap < MAX_GAP || this.size === 0) return;
    this.#items = this.#items.slice(this.#gap);
    this.#firstId += this.#gap;
    this.#gap = 0;
  }

  clear(): void {
    this.#items = [];
    this.#gap = 0;
    this.size = 0;
  }

  *values(): Generator<Call> {
    for (let i = this.#gap; i < this.#items.length; i++) {
      const call = this.#items[i];
      if (call) yield call;
    }
  }
}
