import type { Lane, SlotCall } from "./capacity.ts";

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

/** While calls wait in both lanes, every fourth slot goes to the backlog. */
const CALLERS_IN_A_ROW = 3;

/** Calls waiting for a replica in two lanes, each first come first served; `isBacklogsTurn` decides which is next. */
export class Lanes<C extends Pick<SlotCall, "lane" | "enqueuedAt">> {
  readonly callers = new CallQueue<C>();
  readonly backlog = new CallQueue<C>();
  /** Callers that were served before a waiting backlog since its last turn. */
  #passedBy = 0;

  get size(): number {
    return this.callers.size + this.backlog.size;
  }

  sizeOf(lane: Lane): number {
    return lane === "caller" ? this.callers.size : this.backlog.size;
  }

  push(call: C): void {
    this.#laneOf(call).push(call);
  }

  /** Takes the call whose turn it is. */
  shift(): C | undefined {
    const isBacklogs = this.#isBacklogsTurn();
    this.#passTurn(isBacklogs);
    return isBacklogs ? this.backlog.shift() : this.callers.shift();
  }

  /** Takes the call whose turn it is of those that may leave. */
  shiftFirst(mayLeave: (call: C) => boolean): C | undefined {
    const lanes = [this.callers, this.backlog];
    if (this.#isBacklogsTurn()) lanes.reverse();
    for (const lane of lanes) {
      const call = lane.find(mayLeave);
      if (!call) continue;
      this.#passTurn(lane === this.backlog);
      lane.remove(call);
      return call;
    }
    return undefined;
  }

  /** Puts calls that came back before they began into their own lanes again, in their old places. */
  putBack(calls: readonly C[]): void {
    this.callers.putBack(calls.filter(({ lane }) => lane === "caller"));
    this.backlog.putBack(calls.filter(({ lane }) => lane === "backlog"));
  }

  /** False if the call is not here. */
  remove(call: C): boolean {
    return this.#laneOf(call).remove(call);
  }

  takeAll(): C[] {
    return [...this.callers.takeAll(), ...this.backlog.takeAll()];
  }

  #isBacklogsTurn(): boolean {
    return isBacklogsTurn(this.callers.size, this.backlog.size, this.#passedBy);
  }

  #passTurn(isBacklogs: boolean): void {
    if (isBacklogs) this.#passedBy = 0;
    else if (this.backlog.size > 0) this.#passedBy += 1;
  }

  #laneOf({ lane }: C): CallQueue<C> {
    return lane === "caller" ? this.callers : this.backlog;
  }
}

/** Whether the next slot goes to the backlog: callers come first, but at most three before a waiting backlog. */
export function isBacklogsTurn(callers: number, backlog: number, passedBy: number): boolean {
  return backlog > 0 && (callers === 0 || passedBy >= CALLERS_IN_A_ROW);
}
