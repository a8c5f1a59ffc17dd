import { expect } from "vitest";
import type { Outcome } from "../../src/model/outcome.ts";
import type { Call } from "../../src/replicas/call.ts";
import { until } from "./until.ts";
import { returned, type TestCall, type TestPool } from "./pool.ts";

/** What a storm did, so that a test can see that it was one. */
export type StormReport = {
  readonly cancels: number;
  readonly calls: number;
  /** Calls that were in a replica's hands ahead of their turn when they were cancelled. */
  readonly aheadCancels: number;
  /** Times that a cancel met running code, as the app counted it. */
  readonly interrupted: number;
  /** Calls with another value than their own, or none at all. */
  readonly wrong: readonly string[];
};

const IN_FLIGHT = 40;

/**
 * Calls without pause and cancels at random moments until `cancels` calls were cut short, and enough of them ahead of
 * their turn or in running code: a storm that met none of these would prove nothing.
 */
export async function storm(test: TestPool, cancels: number, seed: number): Promise<StormReport> {
  const random = mulberry(seed);
  const wrong: string[] = [];
  const open = new Map<number, TestCall>();
  const endless = new Set<TestCall>();
  const byCall = new WeakMap<Call, TestCall>();
  let calls = 0;
  let cancelled = 0;
  let aheadCancels = 0;

  const cancel = ({ call }: TestCall): void => {
    if (call.hasEnded) return;
    cancelled += 1;
    if (isAhead(test, call.wireId)) aheadCancels += 1;
    test.pool.slots.abandon(call, { kind: "cancelled" });
  };

  const callOne = (): void => {
    const n = calls++;
    const { functionName, args } = choose(random, n);
    let isOver = false;
    const made = test.submit(functionName, args, (outcome) => {
      if (isOver) wrong.push(`call ${n} ended twice`);
      isOver = true;
      open.delete(n);
      const fault = faultOf(n, made?.call.isCancelled ?? false, outcome);
      if (fault) wrong.push(fault);
    });
    if (!isOver) open.set(n, made);
    byCall.set(made.call, made);
    if (functionName === "forever") endless.add(made);
    else if (random() < 0.3) cancelSometime(random, () => cancel(made));
  };

  /** What never ends by itself is cancelled soon after its hand-over: one cancel lost would block the storm. */
  const cancelEndless = (): void => {
    for (const made of endless) {
      if (made.call.holder === null && !made.call.hasEnded) continue;
      endless.delete(made);
      cancelSometime(random, () => cancel(made));
    }
  };

  /** Some call that is in a replica's hands just now: begun, ahead of its turn, or on its way. */
  const cancelHeld = (): void => {
    const held = [...test.pool.replicas].flatMap(({ calls }) => [...calls.values()]);
    const call = held[Math.floor(random() * held.length)];
    const made = call && byCall.get(call);
    if (made) cancelSometime(random, () => cancel(made));
  };

  const round = async (wanted: number): Promise<void> => {
    const isOver = (): boolean => cancelled >= wanted;
    while (!isOver()) {
      while (open.size < IN_FLIGHT) callOne();
      await new Promise((resolve) => setImmediate(resolve));
      if (random() < 0.7) cancelHeld();
      cancelEndless();
    }
    await until("the last endless call was handed over", () => {
      cancelEndless();
      return endless.size === 0;
    });
    await until("every call has ended", () => open.size === 0);
    await until("every slot is free", () => [...test.pool.replicas].every(({ calls }) => calls.size === 0));
  };

  let interrupted = 0;
  for (let wanted = cancels; wrong.length === 0; wanted += Math.ceil(cancels / 4)) {
    await round(wanted);
    interrupted = Number(await test.value("interrupted", {}));
    if (aheadCancels > cancels / 100 && interrupted > cancels / 1_000) break;
  }
  return { cancels: cancelled, calls, aheadCancels, interrupted, wrong };
}

/** Fails unless as many calls as the replica may hold run in it at once: no slot was lost in Python. */
export async function expectAllSlots(test: TestPool): Promise<void> {
  const size = test.scaling.replicaConcurrency;
  const meeting = Array.from({ length: size }, () => test.value("meet", { size }));
  expect(await Promise.all(meeting)).toEqual(Array.from({ length: size }, () => size));
}

/** Mostly short calls, so that the pool hands ahead; now and then one that is slow or busy. */
function choose(random: () => number, n: number): { functionName: string; args: object } {
  const luck = random();
  // A stretch of busy calls in every 2,000, so that cancels meet running code too.
  const busyShare = n % 2_000 > 1_400 ? 0.5 : 0.002;
  if (luck < busyShare) return { functionName: "busy", args: { n, ms: random() * 3 } };
  if (luck < busyShare + 0.002) return { functionName: "nap", args: { n, ms: random() * 12 } };
  if (luck < busyShare + 0.02) return { functionName: "forever", args: { n } };
  return { functionName: luck > 0.9 ? "fail" : "echo", args: { n } };
}

function cancelSometime(random: () => number, act: () => void): void {
  const moment = Math.floor(random() * 5);
  if (moment === 0) act();
  else if (moment === 1) queueMicrotask(act);
  else if (moment === 2) setImmediate(act);
  else setTimeout(act, Math.floor(random() * 4));
}

function isAhead(test: TestPool, wireId: number): boolean {
  for (const { calls } of test.pool.replicas) {
    const place = [...calls.values()].findIndex((call) => call.wireId === wireId);
    if (place >= test.scaling.replicaConcurrency) return true;
  }
  return false;
}

function faultOf(n: number, isCancelled: boolean, outcome: Outcome): string | null {
  if (isCancelled)
    return outcome.kind === "cancelled" ? null : `cancelled call ${n} ended as ${outcome.kind}`;
  if (outcome.kind === "raised" && outcome.message === `ValueError: ${n}`) return null;
  try {
    const value = returned(outcome);
    return value === n ? null : `call ${n} returned ${JSON.stringify(value)}`;
  } catch (error) {
    return `call ${n}: ${(error as Error).message}`;
  }
}

/** A small generator with a seed, so that a storm that fails can be looked at again. */
function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
