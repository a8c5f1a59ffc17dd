import { Heap } from "../../kit/heap.ts";
import type { Fairness } from "../../model/queue-limits.ts";
import { CallQueue } from "./call-queue.ts";

/** A call as this queue sees it. Its fairness never changes; null: it waits in the line of those without a key. */
type Waiter = { readonly enqueuedAt: number; readonly fairness: Fairness | null };

/** The calls of one key. */
class Line<C extends Waiter> {
  readonly key: string | null;
  weight = 1;
  readonly calls = new CallQueue<C>();
  /** When its turn comes, in turns of a line of weight 1; and among those with the same time. */
  turnAt = 0;
  order = 0;
  /** When its first call came; not kept up while it is the only line. */
  oldestAt = Number.POSITIVE_INFINITY;

  constructor(key: string | null) {
    this.key = key;
  }

  /** How much waits in it, compared with its share. */
  get crowd(): number {
    return this.calls.size / this.weight;
  }
}

/**
 * Calls that wait, in one line for each fairness key. Lines take turns by weight: each turn puts a line's next one
 * 1/weight further back, and the line that is furthest in front has the next turn. A line that begins to wait comes one such
 * step after the current turn, so that a caller gains nothing by sending one call at a time. Within a line the first to
 * come is the first to leave. With a single key, this is a plain queue.
 */
export class FairQueue<C extends Waiter> {
  /** Either a single line, or lines that all have calls. */
  readonly #lines = new Map<string | null, Line<C>>();
  /** One of the lines; where there is a single one, that one. */
  #latest: Line<C>;
  readonly #turns = new Heap<Line<C>>(
    (a, b) => a.turnAt < b.turnAt || (a.turnAt === b.turnAt && a.order < b.order),
  );
  readonly #ages = new Heap<Line<C>>((a, b) => a.oldestAt < b.oldestAt);
  /** The time of the turn that was last. */
  #now = 0;
  #turnCount = 0;
  size = 0;

  constructor() {
    this.#latest = this.#add(new Line<C>(null));
  }

  push(call: C): void {
    const line = this.#lineOf(call);
    line.calls.push(call);
    this.size += 1;
    this.#note(line);
  }

  /** The call that has waited longest, left where it is. */
  peek(): C | undefined {
    return (this.#isPlain ? this.#latest : this.#ages.first)?.calls.peek();
  }

  /** In the order in which they leave, if no other comes. */
  *values(): Generator<C> {
    if (this.#isPlain) {
      yield* this.#latest.calls.values();
      return;
    }
    const turns = [...this.#lines.values()].flatMap(({ calls, turnAt, weight, order }) =>
      Array.from(calls.values(), (call, i) => ({ call, order, at: turnAt + i / weight })),
    );
    for (const { call } of turns.toSorted((a, b) => a.at - b.at || a.order - b.order)) yield call;
  }

  /** Takes the call whose turn it is. */
  shift(): C | undefined {
    const line = this.#isPlain ? this.#latest : this.#turns.first;
    const call = line?.calls.shift();
    if (line && call) this.#served(line);
    return call;
  }

  /** Takes the call whose turn it is of those that may leave. */
  shiftFirst(mayLeave: (call: C) => boolean): C | undefined {
    for (const line of this.#inTurn()) {
      const call = line.calls.find(mayLeave);
      if (!call) continue;
      line.calls.remove(call);
      this.#served(line);
      return call;
    }
    return undefined;
  }

  /** Puts calls that came back before they began into their old places again; their turns count as not used. */
  putBack(calls: readonly C[]): void {
    for (const [key, returned] of Map.groupBy(calls, keyOf)) {
      const isNew = !this.#lines.has(key);
      const line = this.#lineOf(returned[0] as C);
      line.calls.putBack(returned);
      this.size += returned.length;
      line.turnAt = Math.max(this.#now, isNew ? 0 : line.turnAt - returned.length / line.weight);
      this.#note(line);
    }
  }

  /** Puts back what is left of a place that has had its turn. */
  putRest(place: C): void {
    const line = this.#lineOf(place);
    line.calls.putBack([place]);
    this.size += 1;
    this.#note(line);
  }

  /** See `CallQueue`. The turn of the line stays as it is: a caller that cancels calls does not come forward. */
  replace(place: C): void {
    const line = this.#lines.get(keyOf(place));
    if (!line) return;
    line.calls.replace(place);
    this.#note(line);
  }

  /** False if the call is not here. */
  remove(call: C): boolean {
    const line = this.#lines.get(keyOf(call));
    if (!line?.calls.remove(call)) return false;
    this.size -= 1;
    this.#note(line);
    return true;
  }

  /**
   * The call that gives way to another one when no more may wait: the last one of the line that is longest for its weight.
   * None if the other one's own line would then be as long.
   */
  yieldingTo(call: Pick<Waiter, "fairness">): C | undefined {
    let longest = this.#latest;
    for (const line of this.#lines.values()) if (line.crowd > longest.crowd) longest = line;
    const waiting = this.#lines.get(keyOf(call))?.calls.size ?? 0;
    return longest.crowd > (waiting + 1) / weightOf(call) ? longest.calls.last() : undefined;
  }

  /** In the order in which they came. */
  takeAll(): C[] {
    const lines = [...this.#lines.values()].map(({ calls }) => calls.takeAll());
    for (const line of this.#lines.values()) this.#note(line);
    this.size = 0;
    return lines.length === 1
      ? (lines[0] ?? [])
      : lines.flat().toSorted((a, b) => a.enqueuedAt - b.enqueuedAt);
  }

  get #isPlain(): boolean {
    return this.#lines.size === 1;
  }

  #lineOf(call: C): Line<C> {
    const key = keyOf(call);
    let line: Line<C> | undefined = this.#latest;
    if (line.key !== key) {
      line = this.#lines.get(key);
      line ??= this.#begin(call, key);
      this.#latest = line;
    }
    line.weight = weightOf(call);
    return line;
  }

  #begin(call: C, key: string | null): Line<C> {
    const only = this.#isPlain ? this.#latest : null;
    if (only?.calls.size === 0) this.#drop(only);
    const line = new Line<C>(key);
    line.weight = weightOf(call);
    this.#step(line, this.#now);
    this.#add(line);
    if (only && only.calls.size > 0) this.#note(only);
    return line;
  }

  #add(line: Line<C>): Line<C> {
    this.#lines.set(line.key, line);
    this.#turns.add(line);
    this.#ages.add(line);
    return line;
  }

  #drop(line: Line<C>): void {
    this.#lines.delete(line.key);
    this.#turns.remove(line);
    this.#ages.remove(line);
  }

  #served(line: Line<C>): void {
    this.size -= 1;
    // Not back: a line that could not leave when it was its turn is served later.
    this.#now = Math.max(this.#now, line.turnAt);
    this.#step(line, line.turnAt);
    this.#note(line);
  }

  #step(line: Line<C>, from: number): void {
    line.turnAt = from + 1 / line.weight;
    line.order = this.#turnCount += 1;
  }

  /** A line has changed. */
  #note(line: Line<C>): void {
    if (this.#isPlain) {
      if (line.calls.size > 0) return;
      // Without others to compare it with, its turns need not count on.
      this.#now = 0;
      this.#step(line, 0);
      return;
    }
    if (line.calls.size === 0) {
      this.#drop(line);
      this.#latest = this.#turns.first ?? this.#latest;
      return;
    }
    line.oldestAt = line.calls.peek()?.enqueuedAt ?? Number.POSITIVE_INFINITY;
    this.#turns.moved(line);
    this.#ages.moved(line);
  }

  /** The lines, the one whose turn it is first. */
  *#inTurn(): Generator<Line<C>> {
    const { first } = this.#turns;
    if (first) yield first;
    if (this.#isPlain) return;
    const byTurn = [...this.#turns.values()].toSorted((a, b) => a.turnAt - b.turnAt || a.order - b.order);
    for (const line of byTurn) if (line !== first) yield line;
  }
}

function keyOf({ fairness }: Pick<Waiter, "fairness">): string | null {
  return fairness === null ? null : fairness.key;
}

function weightOf({ fairness }: Pick<Waiter, "fairness">): number {
  return fairness === null ? 1 : fairness.weight;
}
