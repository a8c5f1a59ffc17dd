import { CallQueue } from "./call-queue.ts";
import type { Lane, SlotCall } from "./capacity.ts";
import { FairQueue } from "./fair-queue.ts";

/** While calls wait in both lanes, every fourth slot goes to the backlog. */
const CALLERS_IN_A_ROW = 3;

/**
 * Calls waiting for a replica in two lanes; `isBacklogsTurn` decides which is next. Callers take turns by their fairness
 * keys. The backlog is first come first served: it comes from the store in the order of its turns.
 */
export class Lanes<C extends Pick<SlotCall, "lane" | "enqueuedAt" | "fairness">> {
  readonly callers = new FairQueue<C>();
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
      const call = lane.shiftFirst(mayLeave);
      if (!call) continue;
      this.#passTurn(lane === this.backlog);
      return call;
    }
    return undefined;
  }

  /** Puts calls that came back before they began into their own lanes again, in their old places. */
  putBack(calls: readonly C[]): void {
    this.callers.putBack(calls.filter(({ lane }) => lane === "caller"));
    this.backlog.putBack(calls.filter(({ lane }) => lane === "backlog"));
  }

  /** Puts back what is left of a place that has had its turn. */
  putRest(place: C): void {
    if (place.lane === "caller") this.callers.putRest(place);
    else this.backlog.putBack([place]);
  }

  /** See `CallQueue`. */
  replace(place: C): void {
    this.#laneOf(place).replace(place);
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

  #laneOf({ lane }: C): CallQueue<C> | FairQueue<C> {
    return lane === "caller" ? this.callers : this.backlog;
  }
}

/** Whether the next slot goes to the backlog: callers come first, but at most three before a waiting backlog. */
export function isBacklogsTurn(callers: number, backlog: number, passedBy: number): boolean {
  return backlog > 0 && (callers === 0 || passedBy >= CALLERS_IN_A_ROW);
}
