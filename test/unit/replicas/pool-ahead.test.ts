import { describe, expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { type HandCall, PoolByHand } from "./hand-pool.ts";
import type { HandReplica } from "./hand-replica.ts";

/** How long the call at the head may take before what was handed ahead goes back, and the look after that. */
const SLOW_HEAD_MS = 5;
const TICK_MS = 10;
const QUICK_MS = 0.05;
const DRAINING = { kind: "refused", code: "draining" };

/** A pool whose one replica is trusted with ten calls ahead of their turn. */
async function quickPool(): Promise<{ site: PoolByHand; replica: HandReplica }> {
  const site = await PoolByHand.open();
  const first = site.submit();
  const replica = await site.ready(0);
  await site.answer(replica, first, QUICK_MS);
  await site.learnPace(replica, QUICK_MS);
  return { site, replica };
}

describe("while an app is quick", () => {
  test("its busy replica is handed some calls ahead, as many as half a millisecond's work", async () => {
    const { site } = await quickPool();
    const calls = site.submitAll(20);
    expect(calls.filter(({ call }) => call.holder !== null)).toHaveLength(11);
    expect(site.pool.slots.waiting).toBe(9);
  });

  test("a slow call at the head has those behind it come back to their old places", async () => {
    const { site, replica } = await quickPool();
    const head = site.submit();
    const [first, second, third, fourth, fifth] = (
      ["backlog", "caller", "caller", "backlog", "caller"] as const
    ).map((lane) => {
      site.clock.advance(0.1); // Its place in the queue is by its time.
      return site.submit(lane);
    }) as [HandCall, HandCall, HandCall, HandCall, HandCall];
    const all = [first, second, third, fourth, fifth];
    expect(all.every(({ call }) => call.holder !== null)).toBe(true);
    await replica.hears("CALL", fifth.call);
    site.clock.advance(SLOW_HEAD_MS - 0.5);
    expect(replica.told.filter((words) => words.startsWith("WITHDRAW"))).toEqual([]);
    site.clock.advance(TICK_MS);
    for (const { call } of all) await replica.hears("WITHDRAW", call);
    // In any order; one that begins after all stays where it is.
    for (const { call } of [third, first, second, fourth]) replica.givesBack(call);
    await until("they wait again", () => site.pool.slots.waiting === 4);
    expect(fifth.call.holder).not.toBe(null);
    // They have not begun: by their records, and by the terms of an async run.
    expect([first, second, third, fourth].map(({ call }) => call.handedAt)).toEqual([0, 0, 0, 0]);
    // The app is known to be slow now: one at a time, callers first, each lane in order of arrival.
    replica.returns(head.call, 15);
    await site.answer(replica, fifth, 15);
    for (const next of [second, third, first, fourth]) {
      await replica.hears("CALL", next.call);
      expect([...(site.pool.replicas.values().next().value?.calls.values() ?? [])]).toEqual([next.call]);
      await site.answer(replica, next, 15);
    }
    expect(site.pool.slots.backlogRoom).toBeGreaterThanOrEqual(1);
  });

  test("each head is asked about once", async () => {
    const { site, replica } = await quickPool();
    const [, behind] = site.submitAll(2);
    site.clock.advance(1_000);
    await replica.hears("WITHDRAW", behind!.call);
    expect(replica.told.filter((words) => words.startsWith("WITHDRAW"))).toHaveLength(1);
  });

  test("a replica that dies takes the call at its head with it; the others wait again", async () => {
    const { site, replica } = await quickPool();
    const [head, ...behind] = site.submitAll(4);
    replica.exit("exit code 3");
    expect(await site.ended(head!)).toEqual({ kind: "died", detail: "exit code 3" });
    expect(site.pool.slots.waiting).toBe(3);
    // One death costs no wait.
    const next = await site.ready(1);
    for (const call of behind) await site.answer(next, call);
  });
});

// With one caller the pool closes at once; with more than may be handed ahead it serves them first.
for (const count of [1, 15]) {
  test(`a drain gives back what was handed ahead of the backlog, and fails no caller (${count})`, async () => {
    const { site, replica } = await quickPool();
    const head = site.submit("backlog");
    const backlog = site.submit("backlog");
    const callers = site.submitAll(count);
    expect(backlog.call.holder).not.toBe(null);
    let isOver = false;
    const drained = site.pool.slots.drain().then(() => (isOver = true));
    site.clock.advance(SLOW_HEAD_MS + TICK_MS);
    await replica.hears("WITHDRAW", backlog.call);
    replica.givesBack(backlog.call);
    expect(await site.ended(backlog)).toEqual(DRAINING);
    // A caller is withdrawn only while there is a queue for it to go back to.
    const withdrawn = replica.told.filter((words) => words.startsWith("WITHDRAW"));
    expect(withdrawn.length > 1).toBe(count > 1);
    expect([head, ...callers].some(({ outcome }) => outcome !== null)).toBe(false);
    replica.returns(head.call, QUICK_MS);
    for (const caller of callers) {
      await site.answer(replica, caller, QUICK_MS);
      site.clock.advance(TICK_MS);
    }
    await replica.hears("STOP");
    replica.exit();
    await drained;
    expect(isOver).toBe(true);
  });
}

describe("room for the backlog", () => {
  test("is a call for each slot, less those that wait or run", async () => {
    const site = await PoolByHand.open({ maxReplicas: 2, replicaConcurrency: 3 });
    expect(site.pool.slots.backlogRoom).toBe(6);
    site.submit();
    expect(site.pool.slots.backlogRoom).toBe(6);
    const rooms = Array.from({ length: 8 }, () => {
      site.submit("backlog");
      return site.pool.slots.backlogRoom;
    });
    expect(rooms).toEqual([5, 4, 3, 2, 1, 0, 0, 0]);
  });

  test("is 20 ms of work ahead, 512 calls at most", async () => {
    const { site, replica } = await quickPool();
    // 20 ms of 0.05 ms each, beside the slot.
    expect(site.pool.slots.backlogRoom).toBe(401);
    const calls = site.submitAll(401, "backlog");
    expect(site.pool.slots.backlogRoom).toBe(0);
    for (const made of calls) await site.answer(replica, made, 0.001);
    expect(site.pool.slots.backlogRoom).toBe(513);
    for (let call = 0; call < 30; call++) await site.answer(replica, site.submit("backlog"), 400);
    expect(site.pool.slots.backlogRoom).toBe(1);
  });
});
