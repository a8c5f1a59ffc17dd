import type { BatchingConfig } from "../../model/app-config.ts";
import type { Batch } from "./batch.ts";
import { Batches, Group, type Moment } from "./batches.ts";
import type { Lane, SlotCall } from "./capacity.ts";
import { Lanes } from "./lanes.ts";
import type { Leaving } from "./release.ts";

/** A call, or calls that share an execution. */
type Place<C extends SlotCall> = C | Group<C>;

/** Calls that are handed over together. */
export type Departure<C> = { readonly calls: readonly C[]; readonly batch: Batch | null };

/** The calls that wait for a slot. Those that may share an execution have one place together. */
export class Waiting<C extends SlotCall> {
  readonly #lanes = new Lanes<Place<C>>();
  readonly #batches: Batches<C> | null;
  /** Calls of steppers, by function: they use no slots, so none of them waits for calls that do. */
  readonly #stepped = new Map<string, Lanes<C>>();
  /** When a slot last became free; only known where there are batches. */
  #freedAt = Number.NEGATIVE_INFINITY;

  constructor(batching: Readonly<Record<string, BatchingConfig>>) {
    this.#batches = Object.keys(batching).length > 0 ? new Batches(batching) : null;
  }

  /** Calls may share executions. */
  get hasBatches(): boolean {
    return this.#batches !== null;
  }

  /** The most calls that one slot may take at once. */
  get mostCalls(): number {
    return this.#batches?.mostCalls ?? 1;
  }

  /** How many slots they ask for. */
  get places(): number {
    return this.#lanes.size;
  }

  get isEmpty(): boolean {
    return this.#lanes.size === 0 && [...this.#stepped.values()].every(({ size }) => size === 0);
  }

  /** How many calls wait in a lane. */
  count(lane: Lane): number {
    let calls = this.#lanes.sizeOf(lane);
    if (!this.#batches) return calls;
    for (const lanes of this.#stepped.values()) calls += lanes.sizeOf(lane);
    return calls + this.#batches.more(lane);
  }

  /** The functions of steppers for which calls have waited, and how many wait now. */
  *stepped(): Generator<readonly [functionName: string, waiting: number]> {
    for (const [functionName, lanes] of this.#stepped) yield [functionName, lanes.size];
  }

  /** The caller that has waited longest. */
  oldestCaller(): C | undefined {
    const place = this.#lanes.callers.peek();
    let oldest = place instanceof Group ? place.calls[0] : place;
    for (const { callers } of this.#stepped.values()) {
      const call = callers.peek();
      if (call && !(oldest && oldest.enqueuedAt <= call.enqueuedAt)) oldest = call;
    }
    return oldest;
  }

  /** Where those of the calls that wait stand in their lanes, from 1. */
  ranks(calls: ReadonlySet<C>): Map<C, number> {
    const ranks = new Map<C, number>();
    for (const lanes of [this.#lanes, ...this.#stepped.values()])
      for (const lane of [lanes.callers, lanes.backlog]) {
        let rank = 0;
        for (const place of lane.values())
          for (const call of place instanceof Group ? place.calls : [place]) {
            rank += 1;
            if (calls.has(call)) ranks.set(call, rank);
          }
      }
    return ranks;
  }

  /** A stepper runs calls of its function. */
  isStepped(call: C): boolean {
    return this.#batches?.rulesOf(call)?.stepper != null;
  }

  push(call: C, now: number): void {
    const rules = this.#batches?.rulesOf(call);
    if (call.isStepped) return this.#lanesOf(call).push(call);
    if (!rules || !this.#batches) return this.#lanes.push(call);
    // Null if the call joins others, which have a place.
    const group = call.isAlone
      ? this.#batches.return(call, rules)
      : this.#batches.join(call, rules, now, this.#freedAt);
    if (group) this.#lanes.push(group);
  }

  /** Takes the call whose turn it is, where there are no batches. */
  shift(): C | undefined {
    return this.#lanes.shift() as C | undefined;
  }

  /** Takes the call of a stepper whose turn it is. */
  shiftStepped(functionName: string): C | undefined {
    return this.#stepped.get(functionName)?.shift();
  }

  /** Takes what leaves next; or says in how many milliseconds to ask again, if all of it waits for more calls. */
  depart(given: Omit<Moment, "freedAt" | "inAll">): Departure<C> | number {
    const batches = this.#batches;
    const inAll = this.count("caller") + this.count("backlog");
    const moment = { ...given, inAll, freedAt: this.#freedAt };
    let waitMs = Number.POSITIVE_INFINITY;
    let leaving: Leaving = { leaves: true, size: 0, reason: "full" };
    const place = this.#lanes.shiftFirst((each) => {
      if (!(each instanceof Group) || !batches) return true;
      const decision = batches.decide(each, moment);
      if (decision.leaves) leaving = decision;
      else waitMs = Math.min(waitMs, decision.waitMs);
      return decision.leaves;
    });
    if (!place) return waitMs;
    if (!(place instanceof Group) || !batches) return { calls: [place as C], batch: null };
    const { calls, batch, others } = batches.take(place, leaving, moment.now);
    if (place.calls.length > 0) this.#lanes.putRest(place);
    for (const each of others) this.#replace(each);
    return { calls, batch };
  }

  /** The waiting caller that is refused in place of another one when no more may wait; see `FairQueue`. */
  yieldingTo(call: C): C | undefined {
    if (this.isStepped(call)) return this.#lanesOf(call).callers.yieldingTo(call);
    const place = this.#lanes.callers.yieldingTo(call);
    if (!(place instanceof Group)) return place;
    return place.calls.findLast(({ fairness }) => fairness?.key === place.fairness?.key);
  }

  remove(call: C): void {
    if (call.isStepped) return void this.#lanesOf(call).remove(call);
    const group = call.group as Group<C> | null;
    if (!group) return void this.#lanes.remove(call);
    const wasFirst = call === group.calls[0];
    this.#batches?.leave(call, group);
    if (wasFirst) this.#replace(group);
  }

  /** The first call of a group has left: its place is now that of the next one, if there is one. */
  #replace(group: Group<C>): void {
    if (group.calls.length > 0) this.#lanes.replace(group);
    else this.#lanes.remove(group);
  }

  /** Puts calls that came back into their old places again. */
  putBack(calls: readonly C[]): void {
    for (const call of calls) if (call.isStepped) this.#lanesOf(call).putBack([call]);
    const others = calls.filter(({ isStepped }) => !isStepped);
    // The last one first: each goes before those of its function and key that wait.
    const places = others.toReversed().map((call) => {
      const rules = this.#batches?.rulesOf(call);
      return rules && this.#batches ? this.#batches.return(call, rules) : call;
    });
    this.#lanes.putBack(places.toReversed());
  }

  takeAll(): C[] {
    const stepped = [...this.#stepped.values()].flatMap((lanes) => lanes.takeAll());
    return [...this.#callsOf(this.#lanes.takeAll()), ...stepped];
  }

  takeBacklog(): C[] {
    const stepped = [...this.#stepped.values()].flatMap(({ backlog }) => backlog.takeAll());
    return [...this.#callsOf(this.#lanes.backlog.takeAll()), ...stepped];
  }

  /** A replica holds a call no more; `isUsual`: its function was run once, and returned. */
  noteOver({ batch, isStepped }: C, isUsual: boolean, now: number): void {
    if (!isStepped) this.#freedAt = now;
    if (batch) this.#batches?.over(batch, isUsual, now);
  }

  #lanesOf({ functionName }: C): Lanes<C> {
    const lanes = this.#stepped.get(functionName) ?? new Lanes<C>();
    this.#stepped.set(functionName, lanes);
    return lanes;
  }

  #callsOf(places: readonly Place<C>[]): C[] {
    return places.flatMap((place) => {
      if (!(place instanceof Group)) return place;
      const calls = [...place.calls];
      for (const call of calls) this.#batches?.leave(call, place);
      return calls;
    });
  }
}
