import { expect, test } from "vitest";
import { testPool, type TestPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";

const MAIN = `
import os
import time

def fast():
    return 0

def hold():
    while not os.path.exists("go"):
        time.sleep(0.005)

def die():
    os._exit(3)
`;
const DRAINING = { kind: "refused", code: "draining" };
const ONE = "[scaling]\nmax_replicas = 1";

/** Calls in the replicas' hands. */
function inHand({ pool }: TestPool): number {
  return [...pool.replicas].reduce((sum, { calls }) => sum + calls.size, 0);
}

test("there is room for a call in each slot, less those of the backlog that wait or run", async () => {
  const toml = "[scaling]\nmax_replicas = 2\nreplica_concurrency = 3";
  const test = await testPool({ main: MAIN, toml });
  expect(test.pool.slots.backlogRoom).toBe(6);
  const calls = [test.submit("hold", {})];
  expect(test.pool.slots.backlogRoom).toBe(6);
  for (const left of [5, 4, 3, 2, 1, 0, 0]) {
    calls.push(test.backlog("hold", {}));
    expect(test.pool.slots.backlogRoom).toBe(left);
  }
  await until("every slot is taken", () => inHand(test) === 6);
  expect([test.pool.slots.waiting, test.pool.slots.backlogRoom]).toEqual([2, 0]);
  test.leave("go");
  await Promise.all(calls.map(({ ended }) => ended));
  expect(test.pool.slots.backlogRoom).toBeGreaterThanOrEqual(6);
});

test("the shorter the calls, the more room there is ahead, within bounds", async () => {
  const test = await testPool({ main: MAIN, toml: ONE });
  for (let n = 0; n < 100; n++) await test.value("fast", {});
  const room = test.pool.slots.backlogRoom;
  expect(room).toBeGreaterThan(1);
  expect(room).toBeLessThanOrEqual(513);
  const calls = Array.from({ length: room }, () => test.backlog("hold", {}));
  expect(test.pool.slots.backlogRoom).toBe(0);
  test.leave("go");
  await Promise.all(calls.map(({ ended }) => ended));
  expect(test.pool.slots.backlogRoom).toBeGreaterThanOrEqual(1);
});

test("room comes back with a call that is cancelled, whether it waited or ran", async () => {
  const test = await testPool({ main: MAIN, toml: ONE });
  const running = test.backlog("hold", {});
  await until("it runs", () => running.call.holder !== null);
  const waiting = test.backlog("hold", {});
  test.pool.slots.abandon(waiting.call, { kind: "cancelled" });
  expect([test.pool.slots.waiting, test.pool.slots.backlogRoom]).toEqual([0, 0]);
  test.pool.slots.abandon(running.call, { kind: "cancelled" });
  expect(test.pool.slots.backlogRoom).toBe(0);
  await until("its code has stopped", () => test.pool.slots.backlogRoom === 1);
});

test("room comes back with the replica that died under a call", async () => {
  const test = await testPool({ main: MAIN, toml: ONE });
  const death = test.backlog("die", {});
  expect(test.pool.slots.backlogRoom).toBe(0);
  expect((await death.ended).kind).toBe("died");
  expect(test.pool.slots.backlogRoom).toBe(1);
});

test("max_queue and max_queue_seconds bound callers alone, and count them alone", async () => {
  const test = await testPool({ main: MAIN, toml: `${ONE}\nmax_queue = 2\nmax_queue_seconds = 1` });
  const held = test.backlog("hold", {});
  await until("the slot is taken", () => held.call.holder !== null);
  const backlog = Array.from({ length: 10 }, () => test.backlog("hold", {}));
  const callers = [test.submit("fast", {}), test.submit("fast", {})];
  expect(await test.submit("fast", {}).ended).toMatchObject({ kind: "refused", code: "queue_full" });
  backlog.push(test.backlog("hold", {}));
  expect(test.pool.slots.waiting).toBe(13);
  for (const { ended } of callers)
    expect(await ended).toMatchObject({ kind: "refused", code: "queue_timeout" });
  expect(test.pool.slots.waiting).toBe(11);
  test.leave("go");
  const outcomes = await Promise.all([held, ...backlog].map(({ ended }) => ended));
  expect(outcomes.every(({ kind }) => kind === "returned")).toBe(true);
});

test("an app that cannot start refuses its backlog, and has no room until it may try again", async () => {
  const test = await testPool({ main: "raise ValueError('no')", toml: ONE });
  const rooms: number[] = [];
  const calls = Array.from({ length: 3 }, () =>
    test.backlog("run", {}, () => rooms.push(test.pool.slots.backlogRoom)),
  );
  for (const { ended } of calls)
    expect(await ended).toMatchObject({ kind: "refused", code: "app_not_ready" });
  expect(rooms).toEqual([0, 0, 0]);
  await until("there is room again", () => test.pool.slots.backlogRoom === 1);
});

test("a drain serves waiting callers and what runs, and gives the waiting backlog back at once", async () => {
  const test = await testPool({ main: MAIN, toml: ONE });
  const running = test.backlog("hold", {});
  await until("it runs", () => running.call.holder !== null);
  const callers = [test.submit("fast", {}), test.submit("fast", {})];
  const waiting = Array.from({ length: 5 }, () => test.backlog("fast", {}));
  const drained = test.pool.slots.drain();
  expect(waiting.map(({ call }) => call.hasEnded)).toEqual([true, true, true, true, true]);
  for (const { ended } of waiting) expect(await ended).toEqual(DRAINING);
  expect([test.pool.slots.waiting, test.pool.slots.backlogRoom]).toEqual([2, 0]);
  expect(await test.backlog("fast", {}).ended).toEqual(DRAINING);
  expect([running, ...callers].map(({ call }) => call.hasEnded)).toEqual([false, false, false]);
  test.leave("go");
  await drained;
  const outcomes = await Promise.all([running, ...callers].map(({ ended }) => ended));
  expect(outcomes.map(({ kind }) => kind)).toEqual(["returned", "returned", "returned"]);
  expect(test.pool.replicas.size).toBe(0);
});

// With one the pool closes at once; with forty, more than can be handed ahead, it serves them first.
for (const count of [1, 40]) {
  test(`a drain gives back what was handed ahead behind a slow call, but fails no caller (${count})`, async () => {
    let rounds = 0;
    // Calls are handed ahead only while the app is fast, which a busy machine may keep it from being.
    for (let proven = 0; proven < 1 && rounds < 10; rounds++) {
      const test = await testPool({ main: MAIN, toml: ONE });
      for (let n = 0; n < 300; n++) await test.value("fast", {});
      const running = test.backlog("hold", {});
      const backlog = test.backlog("fast", {});
      const callers = Array.from({ length: count }, () => test.submit("fast", {}));
      if (backlog.call.holder !== null) proven += 1;
      const drained = test.pool.slots.drain();
      expect(await backlog.ended).toEqual(DRAINING);
      expect([running, ...callers].some(({ call }) => call.hasEnded)).toBe(false);
      test.leave("go");
      await drained;
      const outcomes = await Promise.all([running, ...callers].map(({ ended }) => ended));
      expect(outcomes.filter(({ kind }) => kind !== "returned")).toEqual([]);
    }
    expect(rounds).toBeLessThan(10);
  });
}
