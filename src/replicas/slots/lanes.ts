import { CallQueue } from "./call-queue.ts";
import type { SlotCall } from "./slot-call.ts";

/** While both lanes wait, every fourth slot is the backlog's. */
const CALLERS_IN_A_ROW = 3;

/** Calls waiting for a replica in two lanes, each first come first served; `isBacklogsTurn` decides which is next. */
export class Lanes<C extends Pick<SlotCall, "lane" | "enqueuedAt">> {
  readonly callers = new CallQueue<C>();
  readonly backlog = new CallQueue<C>();
  /** Callers that went before a waiting backlog since its last turn. */
  #passedBy = 0;

  /** Calls waiting in both lanes. */
  get size(): number {
    return this.callers.size + this.backlog.size;
  }

  push(call: C): void {
    this.#laneOf(call).push(call);
  }

  /** Takes the call whose turn it is. */
  shift(): C | undefined {
    const backlog = this.backlog.size;
    if (isBacklogsTurn(this.callers.size, backlog, this.#passedBy)) {
      this.#passedBy = 0;
      return this.backlog.shift();
    }
    if (backlog > 0) this.#passedBy += 1;
    return this.callers.shift();
  }

  /** Puts calls that came back before they began into their own lanes again, in their old places. */
  putBack(calls: readonly C[]): void {
    this.callers.putBack(calls.filter(({ lane }) => lane === "caller"));
    this.backlog.putBack(calls.filter(({ lane }) => lane === "backlog"));
  }

  /** Takes one call out, wherever it stands; false when it is not here. */
  remove(call: C): boolean {
    return this.#laneOf(call).remove(call);
  }

  /** Empties both lanes. */
  takeAll(): C[] {
    return [...this.callers.takeAll(), ...this.backlog.takeAll()];
  }

  #laneOf({ lane }: C): CallQueue<C> {
    return lane === "caller" ? this.callers : this.backlog;
  }
}

/**
 * Whether the next slot goes to the backlog: callers go first, until three of them have passed by a backlog
 * that waited. Pure: the lanes count, this decides.
 */
export function isBacklogsTurn(callers: number, backlog: number, passedBy: number): boolean {
  return backlog > 0 && (callers === 0 || passedBy >= CALLERS_IN_A_ROW);
}
