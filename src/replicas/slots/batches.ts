import { createHash } from "node:crypto";
import { findMembers, type MemberText } from "../../kit/json/members.ts";
import { QUOTE } from "../../kit/json/scan.ts";
import type { BatchingConfig } from "../../model/app-config.ts";
import type { Fairness } from "../../model/queue-limits.ts";
import { Batch } from "./batch.ts";
import type { Lane, SlotCall } from "./capacity.ts";
import { DurationTrend, Rhythm } from "./learning.ts";
import { type Leaving, release, type Release } from "./release.ts";

/** So many groups are remembered after their calls; the one that was used least recently is forgotten first. */
const MAX_RHYTHMS = 1_000;
/** A longer value of a `key` is replaced by its hash. */
const KEY_CHARS = 256;
const PARSED_BYTES = 64 * 1024;
/** Of the arguments of a batch together: they are one frame, whose length has 32 bits, and the replica reads it whole. */
export const MAX_BATCH_BYTES = 256 * 1024 * 1024;

/** Calls of a function that wait, in order of arrival, and may leave together. It has one place in its lane. */
export class Group<C extends SlotCall> {
  readonly functionName: string;
  readonly key: string;
  readonly lane: Lane;
  readonly rhythm: Rhythm;
  readonly rules: BatchingConfig;
  /** Whose turns it takes: those of its first call. */
  readonly fairness: Fairness | null;
  readonly calls: C[] = [];
  size = 0;
  /** Of their arguments. */
  bytes = 0;
  /** No call may join it any more. */
  isClosed = false;
  /** When it could first have left, because a slot was free; null if none was yet. */
  couldLeaveAt: number | null = null;

  constructor(
    { lane, functionName, fairness }: Pick<SlotCall, "lane" | "functionName" | "fairness">,
    key: string,
    rhythm: Rhythm,
    rules: BatchingConfig,
  ) {
    this.lane = lane;
    this.functionName = functionName;
    this.fairness = fairness;
    this.key = key;
    this.rhythm = rhythm;
    this.rules = rules;
  }

  /** When its oldest call came. */
  get enqueuedAt(): number {
    return this.calls[0]?.enqueuedAt ?? Infinity;
  }

  /** A call that is too large goes alone. */
  hasRoomFor(bytes: number, size: number, maxSize: number): boolean {
    if (this.isClosed) return false;
    const fits = this.size + size <= maxSize && this.bytes + bytes <= MAX_BATCH_BYTES;
    return fits || this.calls.length === 0;
  }

  add(call: C, size: number): void {
    call.group = this;
    call.size = size;
    this.calls.push(call);
    this.size += size;
    this.bytes += call.body.length;
  }

  remove(call: C): void {
    const index = this.calls.indexOf(call);
    if (index === -1) return;
    this.calls.splice(index, 1);
    this.size -= call.size;
    this.bytes -= call.body.length;
    call.group = null;
  }

  /** Takes its oldest calls, up to a size and so many bytes together and so many calls; at least one. */
  take(maxSize: number, maxCalls: number, maxBytes: number): C[] {
    let size = 0;
    let bytes = 0;
    let count = 0;
    for (const call of this.calls) {
      const fits = size + call.size <= maxSize && bytes + call.body.length <= maxBytes && count < maxCalls;
      if (count > 0 && !fits) break;
      size += call.size;
      bytes += call.body.length;
      count += 1;
    }
    const taken = this.calls.splice(0, count);
    this.size -= size;
    this.bytes -= bytes;
    for (const call of taken) call.group = null;
    this.couldLeaveAt = null;
    return taken;
  }
}

/** The state of the slots when a group asks to leave. */
export type Moment = {
  readonly now: number;
  /** When a slot last became free. */
  readonly freedAt: number;
  readonly limitMs: number;
  readonly isDraining: boolean;
  /** How many calls wait in all, and for how many slots of replicas that are ready. */
  readonly inAll: number;
  readonly slots: number;
};

/** Groups the waiting calls of batched functions, and learns from what becomes of them. */
export class Batches<C extends SlotCall> {
  readonly #rules: Readonly<Record<string, BatchingConfig>>;
  readonly #trends = new Map<string, DurationTrend>();
  /** Those that wait, oldest first, by lane, function and key. Sets, as one that leaves may be one of many thousands. */
  readonly #groups = new Map<string, Set<Group<C>>>();
  /** Of those, the one that calls join, also by the caller's fairness key. */
  readonly #youngest = new Map<string, Group<C>>();
  readonly #rhythms = new Map<string, Rhythm>();
  /** Waiting calls beyond the first of each group, by lane. */
  readonly #more: Record<Lane, number> = { caller: 0, backlog: 0 };

  constructor(rules: Readonly<Record<string, BatchingConfig>>) {
    this.#rules = rules;
  }

  /** How many more calls wait in a lane than it has places. */
  more(lane: Lane): number {
    return this.#more[lane];
  }

  rulesOf({ functionName }: Pick<SlotCall, "functionName">): BatchingConfig | null {
    return Object.hasOwn(this.#rules, functionName) ? (this.#rules[functionName] ?? null) : null;
  }

  /** The most calls that one slot may take at once. */
  get mostCalls(): number {
    return Math.max(...Object.values(this.#rules).map(({ maxSize }) => maxSize));
  }

  /** Adds a call to the group with which it can leave; returns the group if it is new, and needs a place in its lane. */
  join(call: C, rules: BatchingConfig, now: number, freedAt: number): Group<C> | null {
    const { key, size } = readBody(call, rules);
    const name = JSON.stringify([call.functionName, key]);
    const rhythm = this.#rhythmOf(name);
    const last = this.#toJoin(call, name);
    const group = last?.hasRoomFor(call.body.length, size, rules.maxSize)
      ? last
      : new Group<C>(call, name, rhythm, rules);
    group.add(call, size);
    // Both: calls may have the size 0.
    group.isClosed = group.size >= rules.maxSize || group.calls.length >= rules.maxSize;
    rhythm.came(now, freedAt, group.calls.length);
    if (group === last) {
      this.#more[call.lane] += 1;
      return null;
    }
    // Only the last may have room, so that calls leave in order.
    if (last) last.isClosed = true;
    this.#append(group);
    return group;
  }

  /** The place of a call that came back. Others do not join it, but it may leave with those that came before or after it. */
  return(call: C, rules: BatchingConfig): Group<C> {
    const { key, size } = readBody(call, rules);
    const name = JSON.stringify([call.functionName, key]);
    const group = new Group<C>(call, name, this.#rhythmOf(name), rules);
    group.add(call, size);
    group.isClosed = true;
    if (!call.isAlone)
      this.#groups.set(call.lane + name, new Set([group, ...this.#groupsOf(call.lane, name)]));
    return group;
  }

  /** A call waits no longer. */
  leave(call: C, group: Group<C>): void {
    group.remove(call);
    if (group.calls.length > 0) this.#more[group.lane] -= 1;
    else this.#forget(group);
  }

  /** Whether a group leaves, if a slot is free. */
  decide(group: Group<C>, { now, freedAt, limitMs, ...moment }: Moment): Release {
    const { rules, rhythm, calls, size, enqueuedAt, functionName, isClosed, lane, key } = group;
    const { maxWaitSeconds, targetLatencySeconds } = rules;
    const freeAt = Math.max(freedAt, enqueuedAt);
    // The first time: while it waits, other calls may use and free a slot again and again.
    group.couldLeaveAt ??= freeAt;
    return release(
      {
        calls: calls.length,
        size,
        // Where others wait already, it is filled up with them.
        isFull: isClosed || (this.#groups.get(lane + key)?.size ?? 0) > 1,
        oldestMs: now - enqueuedAt,
        lullMs: now - Math.max(freedAt, rhythm.lastMs),
        freeMs: now - group.couldLeaveAt,
        restMs: freeAt - freedAt,
        ...moment,
      },
      {
        maxWaitMs: maxWaitSeconds * 1000,
        targetMs: targetLatencySeconds === null ? null : targetLatencySeconds * 1000,
        limitMs,
      },
      {
        duration: this.#trends.get(functionName)?.line ?? null,
        burstGapMs: rhythm.burstGapMs,
        expected: rhythm.expected(calls.length),
      },
    );
  }

  /**
   * Takes the calls with which a group leaves, and fills up with those of the same key in other places, `others`. Each of
   * these groups may keep some.
   */
  take(group: Group<C>, { size, reason }: Leaving, now: number) {
    const { lane, key, rules } = group;
    const isAlone = group.calls[0]?.isAlone ?? true;
    const most = reason === "deadline" ? size : Math.max(size, rules.maxSize);
    const calls = this.#takeFrom(group, size, rules.maxSize, MAX_BATCH_BYTES);
    let weight = sizesOf(calls);
    let leftBytes = MAX_BATCH_BYTES - bytesOf(calls);
    const others: Group<C>[] = [];
    const candidates = isAlone ? [] : this.#ofBothLanes(lane, key);
    for (const other of candidates) {
      const [first] = other.calls;
      if (!first || weight + first.size > most || calls.length >= rules.maxSize) break;
      // Those that follow came later: they do not pass it.
      if (first.body.length > leftBytes) break;
      const joined = this.#takeFrom(other, most - weight, rules.maxSize - calls.length, leftBytes);
      weight += sizesOf(joined);
      leftBytes -= bytesOf(joined);
      calls.push(...joined);
      others.push(other);
    }
    const batch = new Batch(group, calls.length, weight, reason, now);
    for (const call of calls) call.batch = batch;
    group.rhythm.left(calls.length);
    return { calls, batch, others };
  }

  #takeFrom(group: Group<C>, maxSize: number, maxCalls: number, maxBytes: number): C[] {
    const calls = group.take(maxSize, maxCalls, maxBytes);
    const isEmpty = group.calls.length === 0;
    this.#more[group.lane] -= calls.length - (isEmpty ? 1 : 0);
    if (isEmpty) this.#forget(group);
    return calls;
  }

  /** To be called for each call of a batch that its replica holds no more: the last one ends the batch. */
  over(batch: Batch, isUsual: boolean, now: number): void {
    batch.isUsual &&= isUsual;
    if (batch.held > 0 || batch.isOver) return;
    batch.isOver = true;
    batch.rhythm.over(batch.size);
    // A call that is too large for a batch says nothing about batches, and callers choose how large they call it.
    const { maxSize = 0 } = this.rulesOf(batch) ?? {};
    if (!batch.isUsual || batch.weight > maxSize) return;
    const trend = this.#trends.get(batch.functionName) ?? new DurationTrend();
    this.#trends.set(batch.functionName, trend);
    trend.add(batch.weight, now - batch.handedAt);
  }

  #groupsOf(lane: Lane, name: string): Iterable<Group<C>> {
    // Not kept if there are none: there may be any number of keys.
    return this.#groups.get(lane + name) ?? [];
  }

  *#ofBothLanes(lane: Lane, name: string): Generator<Group<C>> {
    yield* this.#groupsOf(lane, name);
    yield* this.#groupsOf(otherLane(lane), name);
  }

  /**
   * A caller whose calls fill several groups has the others wait only for its turns: they join their own ones then, which
   * take calls from all of them when they leave.
   */
  #toJoin(call: C, name: string): Group<C> | undefined {
    const waiting = this.#groups.get(call.lane + name);
    if (waiting?.size === 1) return waiting.values().next().value;
    return this.#youngest.get(callersName(call, name));
  }

  #append(group: Group<C>): void {
    const name = group.lane + group.key;
    const groups = this.#groups.get(name);
    if (groups) groups.add(group);
    else this.#groups.set(name, new Set([group]));
    this.#youngest.set(callersName(group, group.key), group);
  }

  #forget(group: Group<C>): void {
    group.isClosed = true;
    const name = group.lane + group.key;
    const groups = this.#groups.get(name);
    groups?.delete(group);
    if (groups?.size === 0) this.#groups.delete(name);
    const ofCaller = callersName(group, group.key);
    if (this.#youngest.get(ofCaller) === group) this.#youngest.delete(ofCaller);
  }

  #rhythmOf(name: string): Rhythm {
    const rhythm = this.#rhythms.get(name) ?? new Rhythm();
    // The one that was used least recently comes first.
    this.#rhythms.delete(name);
    this.#rhythms.set(name, rhythm);
    if (this.#rhythms.size > MAX_RHYTHMS) this.#rhythms.delete(this.#rhythms.keys().next().value ?? "");
    return rhythm;
  }
}

function callersName({ lane, fairness }: Pick<SlotCall, "lane" | "fairness">, name: string): string {
  return fairness === null ? lane + name : `${lane}${name}${fairness.key}`;
}

function otherLane(lane: Lane): Lane {
  return lane === "caller" ? "backlog" : "caller";
}

function sizesOf(calls: readonly SlotCall[]): number {
  return calls.reduce((sum, { size }) => sum + size, 0);
}

function bytesOf(calls: readonly Pick<SlotCall, "body">[]): number {
  return calls.reduce((sum, { body }) => sum + body.length, 0);
}

/** The value by which a call is grouped, and its size. */
function readBody({ body }: Pick<SlotCall, "body">, { key, size }: BatchingConfig) {
  const names = [key, size].filter((name) => name !== null);
  if (names.length === 0 || body.length === 0) return { key: "", size: 1 };
  const found = findMembers(body, [...new Set(names)]);
  return { key: keyOf(found.get(key ?? "")), size: sizeOf(found.get(size ?? "")) };
}

/** Equal for equal values; empty if there is none. */
function keyOf(value: MemberText | undefined): string {
  if (!value) return "";
  // A long one is not parsed: if it is written in another way, it is another key.
  const text = value.bytes.length <= PARSED_BYTES ? plainText(value.bytes.toString("utf8")) : value.bytes;
  return text.length <= KEY_CHARS ? text.toString() : createHash("sha256").update(text).digest("base64");
}

/** One way to write a value. Numbers remain as they were sent: Python's integers are larger than ours. */
function plainText(text: string): string {
  const plain = JSON.stringify(JSON.parse(text));
  // Integers of more than 15 digits, larger numbers, and those that became infinite.
  if (!/\d{16}|\d[eE]|null/u.test(plain)) return plain;
  const asSent = (_: string, value: unknown, { source = "" }: { source?: string }): unknown => {
    if (typeof value === "string") return `text ${value}`;
    return typeof value === "number" ? `number ${source}` : value;
  };
  return `exact ${JSON.stringify(JSON.parse(text, asSent as (name: string, value: unknown) => unknown))}`;
}

function sizeOf(value: MemberText | undefined): number {
  if (!value) return 1;
  const { bytes, items } = value;
  if (items !== null) return items;
  if (bytes[0] === QUOTE) return (JSON.parse(bytes.toString("utf8")) as string).length;
  const number = Number(bytes.length <= KEY_CHARS ? bytes.toString("latin1") : Number.NaN);
  return Number.isSafeInteger(number) && number > 0 ? number : 1;
}
