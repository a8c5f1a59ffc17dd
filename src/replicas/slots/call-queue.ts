import type { SlotCall } from "./slot-call.ts";

/** Calls waiting for a replica, first come first served; taking from the front costs the same at any length. */
export class CallQueue<C extends Pick<SlotCall, "enqueuedAt">> {
  #items: (C | undefined)[] = [];
  #head = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(call: C): void {
    this.#items.push(call);
    this.#size += 1;
  }

  /** The call that has waited longest, left where it is. */
  peek(): C | undefined {
    while (this.#head < this.#items.length && this.#items[this.#head] === undefined) this.#head += 1;
    return this.#items[this.#head];
  }

  shift(): C | undefined {
    const call = this.peek();
    if (!call) return undefined;
    this.#items[this.#head] = undefined;
    this.#head += 1;
    this.#size -= 1;
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return call;
  }

  /** Puts calls that came back before they began into their old places again. */
  putBack(calls: readonly C[]): void {
    // Of those that came in one moment, the last put back stands first.
    for (const call of calls.toReversed()) this.#insert(call);
  }

  /** Before all that came later. Nearly always that is the front, where those that left have made room. */
  #insert(call: C): void {
    let index = this.#head;
    for (; index < this.#items.length; index++) {
      const other = this.#items[index];
      if (other && other.enqueuedAt >= call.enqueuedAt) break;
    }
    if (index === this.#head && index > 0) this.#items[--this.#head] = call;
    else this.#items.splice(index, 0, call);
    this.#size += 1;
  }

  /** Takes one call out, wherever it stands; false when it is not here. */
  remove(call: C): boolean {
    const index = this.#items.indexOf(call, this.#head);
    if (index === -1) return false;
    this.#items[index] = undefined;
    this.#size -= 1;
    return true;
  }

  /** Empties the queue. */
  takeAll(): C[] {
    const calls = this.#items.slice(this.#head).filter((call) => call !== undefined);
    this.#items = [];
    this.#head = 0;
    this.#size = 0;
    return calls;
  }
}
