import { createHash } from "node:crypto";
import type { BatchingConfig } from "../../model/app-config.ts";
import { Batch } from "./batch.ts";
import type { Lane, SlotCall } from "./capacity.ts";
import { DurationTrend, Rhythm } from "./learning.ts";
import { type Leaving, release, type Release } from "./release.ts";

/** So many groups are remembered after their calls; the one that was used least recently is forgotten first. */
const MAX_RHYTHMS = 1_000;
/** A longer value of a `key` is replaced by its hash. */
const KEY_CHARS = 256;

/** The arguments of a batch have so many bytes at most, as much as one call may: it is one frame, held as a whole. */
const MAX_BATCH_BYTES = 256 * 1024 * 1024;

/** Calls of a function that wait, in order of arrival, and may leave together. It has one place in its lane. */
export class Group<C extends SlotCall> {
  readonly functionName: string;
  readonly key: string;
  readonly lane: Lane;
  readonly rhythm: Rhythm;
  readonly rules: BatchingConfig;
  readonly calls: C[] = [];
  size = 0;
  /** Of their arguments. */
  bytes = 0;
  /** When it could first have left, because a slot was free; null if none was yet. */
  couldLeaveAt: number | null = null;
  /** No call may join it any more. */
  isClosed = false;

  constructor(lane: Lane, functionName: string, key: string, rhythm: Rhythm, rules: BatchingConfig) {
    this.lane = lane;
    this.functionName = functionName;
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
    this.couldLeaveAt = null;
    for (const call of taken) call.group = null;
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
};

/** Groups the waiting calls of batched functions, and learns from what becomes of them. */
export class Batches<C extends SlotCall> {
  readonly #rules: Readonly<Record<string, BatchingConfig>>;
  readonly #trends = new Map<string, DurationTrend>();
  /** Those that wait, oldest first, by lane, function and key. Only the last may have room. */
  readonly #groups = new Map<string, readonly Group<C>[]>();
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
    const last = this.#groupsOf(call.lane, name).at(-1);
    const group = last?.hasRoomFor(call.body.length, size, rules.maxSize)
      ? last
      : new Group<C>(call.lane, call.functionName, name, rhythm, rules);
    group.add(call, size);
    // Both: calls may have the size 0.
    group.isClosed = group.size >= rules.maxSize || group.calls.length >= rules.maxSize;
    rhythm.came(now, freedAt, group.calls.length);
    if (group !== last) {
      // Only the last may have room, so that calls leave in order.
      if (last) last.isClosed = true;
      this.#setGroups(call.lane, name, [...this.#groupsOf(call.lane, name), group]);
      return group;
    }
    this.#more[call.lane] += 1;
    return null;
  }

  /** The place of a call that came back. Others do not join it, but it may leave with those that came before or after it. */
  return(call: C, rules: BatchingConfig): Group<C> {
    const { key, size } = readBody(call, rules);
    const name = JSON.stringify([call.functionName, key]);
    const group = new Group<C>(call.lane, call.functionName, name, this.#rhythmOf(name), rules);
    group.add(call, size);
    group.isClosed = true;
    if (!call.isAlone) this.#setGroups(call.lane, name, [group, ...this.#groupsOf(call.lane, name)]);
    return group;
  }

  /** A call waits no longer. Returns whether its group has no other. */
  leave(call: C, group: Group<C>): boolean {
    group.remove(call);
    if (group.calls.length > 0) this.#more[group.lane] -= 1;
    else this.#forget(group);
    return group.calls.length === 0;
  }

  /** Whether a group leaves, if a slot is free. */
  decide(group: Group<C>, { now, freedAt, limitMs, isDraining }: Moment): Release {
    const { rules, rhythm, calls, size, enqueuedAt, functionName, isClosed } = group;
    const { maxWaitSeconds, targetLatencySeconds } = rules;
    // The first time: while it waits, other slots may become free again and again.
    const couldLeaveAt = (group.couldLeaveAt ??= Math.max(freedAt, enqueuedAt));
    return release(
      {
        calls: calls.length,
        size,
        isFull: isClosed,
        oldestMs: now - enqueuedAt,
        lullMs: now - Math.max(freedAt, rhythm.lastMs),
        freeMs: now - couldLeaveAt,
        restMs: Math.max(0, couldLeaveAt - freedAt),
        isDraining,
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
   * Takes the calls with which a group leaves, and fills up with those of the same key in other places. The group may
   * keep some; `emptied` are the groups whose places are not needed any more.
   */
  take(group: Group<C>, { size, reason }: Leaving, now: number) {
    const { lane, key, rules } = group;
    const isAlone = group.calls[0]?.isAlone ?? true;
    const most = reason === "deadline" ? size : Math.max(size, rules.maxSize);
    const calls = this.#takeFrom(group, size, rules.maxSize, MAX_BATCH_BYTES);
    let weight = sizesOf(calls);
    let leftBytes = MAX_BATCH_BYTES - bytesOf(calls);
    const emptied: Group<C>[] = [];
    const others = isAlone ? [] : [...this.#groupsOf(lane, key), ...this.#groupsOf(otherLane(lane), key)];
    for (const other of others) {
      const [first] = other.calls;
      if (!first || weight + first.size > most || calls.length >= rules.maxSize) break;
      if (first.body.length > leftBytes) break;
      const joined = this.#takeFrom(other, most - weight, rules.maxSize - calls.length, leftBytes);
      weight += sizesOf(joined);
      leftBytes -= bytesOf(joined);
      calls.push(...joined);
      if (other.calls.length === 0) emptied.push(other);
    }
    const batch = new Batch(group, calls.length, weight, reason, now);
    for (const call of calls) call.batch = batch;
    group.rhythm.left(calls.length);
    return { calls, batch, emptied };
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
    if (!batch.isUsual) return;
    const trend = this.#trends.get(batch.functionName) ?? new DurationTrend();
    this.#trends.set(batch.functionName, trend);
    trend.add(batch.weight, now - batch.handedAt);
  }

  #groupsOf(lane: Lane, name: string): readonly Group<C>[] {
    return this.#groups.get(lane + name) ?? [];
  }

  /** Without groups the name is forgotten: a function may have any number of keys. */
  #setGroups(lane: Lane, name: string, groups: readonly Group<C>[]): void {
    if (groups.length > 0) this.#groups.set(lane + name, groups);
    else this.#groups.delete(lane + name);
  }

  #forget(group: Group<C>): void {
    group.isClosed = true;
    const { lane, key } = group;
    this.#setGroups(
      lane,
      key,
      this.#groupsOf(lane, key).filter((other) => other !== group),
    );
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

function otherLane(lane: Lane): Lane {
  return lane === "caller" ? "backlog" : "caller";
}

function sizesOf(calls: readonly SlotCall[]): number {
  return calls.reduce((sum, { size }) => sum + size, 0);
}

function bytesOf(calls: readonly SlotCall[]): number {
  return calls.reduce((sum, { body }) => sum + body.length, 0);
}

/** The value by which a call is grouped, and its size. */
function readBody({ body }: Pick<SlotCall, "body">, { key, size }: BatchingConfig) {
  if ((key === null && size === null) || body.length === 0) return { key: "", size: 1 };
  const text = body.toString("utf8");
  const fields = JSON.parse(text) as Record<string, unknown>;
  const given = valueOf(fields, key);
  const value = isExact(given) ? given : valueOf(JSON.parse(text, asWritten) as Record<string, unknown>, key);
  return { key: shortKey(value), size: sizeOf(valueOf(fields, size)) };
}

function valueOf(fields: Record<string, unknown>, name: string | null): unknown {
  return name !== null && Object.hasOwn(fields, name) ? fields[name] : undefined;
}

/** Whether a value has no number that is rounded here and not in Python, where integers have any length. */
function isExact(value: unknown): boolean {
  if (typeof value === "number") return Number.isSafeInteger(value) || (value % 1 !== 0 && isFinite(value));
  if (typeof value !== "object" || value === null) return true;
  return Object.values(value).every((each) => isExact(each));
}

/** Keeps such numbers as they were written. */
function asWritten(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  return typeof value !== "number" || isExact(value) || source === undefined ? value : JSON.rawJSON(source);
}

declare global {
  // Node has them, TypeScript not yet.
  interface JSON {
    parse(text: string, reviver: typeof asWritten): unknown;
    rawJSON(text: string): object;
  }
}

function shortKey(value: unknown): string {
  const text = JSON.stringify(value) ?? "";
  return text.length <= KEY_CHARS ? text : createHash("sha256").update(text).digest("base64");
}

function sizeOf(value: unknown): number {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 1;
}
