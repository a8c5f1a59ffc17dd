import type { SlotCall } from "./capacity.ts";

/** Calls waiting for a replica, first come first served; taking from the front costs the same at any length. */
export class CallQueue<C extends Pick<SlotCall, "enqueuedAt">> {
  #items: (C | undefined)[] = [];
  #head = 0;
  size = 0;

  push(call: C): void {
    this.#items.push(call);
    this.size += 1;
  }

  /** The call that has waited longest, left where it is. */
  peek(): C | undefined {
    while (this.#head < this.#items.length && this.#items[this.#head] === undefined) this.#head += 1;
    return this.#items[this.#head];
  }

  /** The call that came last, left where it is. */
  last(): C | undefined {
    while (this.#items.length > this.#head && this.#items.at(-1) === undefined) this.#items.pop();
    return this.#head < this.#items.length ? this.#items.at(-1) : undefined;
  }

  /** In the order in which they leave. */
  *values(): Generator<C> {
    for (let index = this.#head; index < this.#items.length; index++) {
      const call = this.#items[index];
      if (call) yield call;
    }
  }

  /** Takes the call that has waited longest. */
  shift(): C | undefined {
    const call = this.peek();
    if (!call) return undefined;
    this.#clear(this.#head);
    return call;
  }

  /** The one that has waited longest of those that may leave, left where it is. */
  find(mayLeave: (call: C) => boolean): C | undefined {
    // Moves the head behind places that were cleared out of order: they would be looked at, and kept, for ever.
    this.peek();
    for (let index = this.#head; index < this.#items.length; index++) {
      const call = this.#items[index];
      if (call && mayLeave(call)) return call;
    }
    return undefined;
  }

  /** Takes that one. */
  shiftFirst(mayLeave: (call: C) => boolean): C | undefined {
    const call = this.find(mayLeave);
    if (call) this.remove(call);
    return call;
  }

  /** Puts calls that came back before they began into their old places again. */
  putBack(calls: readonly C[]): void {
    // With equal times, the last one inserted comes first.
    for (const call of calls.toReversed()) {
      let index = this.#head;
      for (; index < this.#items.length; index++) {
        const other = this.#items[index];
        if (other && other.enqueuedAt >= call.enqueuedAt) break;
      }
      // That is nearly always the front, where there is room.
      if (index === this.#head && index > 0) this.#items[--this.#head] = call;
      else this.#items.splice(index, 0, call);
      this.size += 1;
    }
  }

  /** False if the call is not here. */
  remove(call: C): boolean {
    const index = this.#items.indexOf(call, this.#head);
    if (index === -1) return false;
    this.#clear(index);
    return true;
  }

  /** A place whose first call is another one by now: its own is according to that one's time. */
  replace(call: C): void {
    if (this.remove(call)) this.putBack([call]);
  }

  #clear(index: number): void {
    this.#items[index] = undefined;
    this.size -= 1;
    if (index === this.#head) this.#head += 1;
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }

  takeAll(): C[] {
    const calls = this.#items.slice(this.#head).filter((call) => call !== undefined);
    this.#items = [];
    this.#head = 0;
    this.size = 0;
    return calls;
  }
}
