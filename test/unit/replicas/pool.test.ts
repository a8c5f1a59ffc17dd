import { describe, expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { PoolByHand } from "./hand-pool.ts";
import { sampleScaling } from "./sample-scaling.ts";

const TICK_MS = 10;
const NEVER = new AbortController().signal;
const DRAINING = { kind: "refused", code: "draining" };

describe("max_queue_seconds", () => {
  verifies(
    ["errors.busy.max-queue-seconds", "errors.busy.cold-time"],
    "bounds a caller's wait by the time in which a replica was ready, and by no other",
    async () => {
      const site = await PoolByHand.open({ maxQueueSeconds: 10 });
      const [first, second, third] = site.submitAll(3);
      site.clock.advance(300_000); // Five minutes of import.
      const replica = await site.ready(0);
      expect([first!.call.holder !== null, second!.outcome, third!.outcome]).toEqual([true, null, null]);
      await replica.hears("CALL", first!.call);
      site.clock.advance(9_000);
      replica.exit("exit code 3");
      expect(await site.ended(first!)).toEqual({ kind: "died", detail: "exit code 3" });
      site.clock.advance(300_000); // And five more without one.
      await site.ready(1);
      await until("the second has its turn", () => second!.call.holder !== null);
      site.clock.advance(1_000 - TICK_MS);
      expect(third!.outcome).toBe(null);
      site.clock.advance(TICK_MS);
      expect(third!.outcome).toMatchObject({ kind: "refused", code: "queue_timeout" });
      // It was refused while it waited; who is in a replica's hands does not wait.
      expect(second!.outcome).toBe(null);
    },
  );

  test("does not bound the backlog, and leaves a caller its place in the queue until then", async () => {
    const site = await PoolByHand.open({ maxQueueSeconds: 10, maxQueue: 1 });
    const held = site.submit();
    const replica = await site.ready(0);
    const backlog = site.submitAll(5, "backlog");
    const waiting = site.submit();
    expect(site.submit().outcome).toMatchObject({ kind: "refused", code: "queue_full" });
    site.clock.advance(9_999);
    await site.answer(replica, held);
    await site.answer(replica, waiting);
    site.clock.advance(600_000);
    expect(backlog.filter(({ outcome }) => outcome?.kind === "refused")).toEqual([]);
  });
});

describe("response_grace_period", () => {
  verifies(
    ["lifecycle.grace-504", "lifecycle.grace-from-hand-over", "lifecycle.grace-stops-code"],
    "counts from the hand-over; then the reader knows at once, the code is told to stop, and only its end frees the slot",
    async () => {
      const site = await PoolByHand.open({ responseGracePeriodSeconds: 30 });
      const [first, second] = site.submitAll(2);
      site.clock.advance(60_000);
      const replica = await site.ready(0);
      await replica.hears("CALL", first!.call);
      site.clock.advance(30_000 - TICK_MS);
      expect(first!.outcome).toBe(null);
      site.clock.advance(TICK_MS);
      expect(first!.outcome).toEqual({ kind: "timed_out", afterMs: 30_000 });
      await replica.hears("CANCEL", first!.call);
      expect(second!.call.holder).toBe(null);
      replica.stopped(first!.call);
      await replica.hears("CALL", second!.call);
      // It has waited for a minute and a half, which does not count.
      site.clock.advance(30_000 - TICK_MS);
      expect(second!.outcome).toBe(null);
      await site.answer(replica, second!);
      expect(site.exits).toEqual([]);
    },
  );

  test("may change while a call runs", async () => {
    const site = await PoolByHand.open({ responseGracePeriodSeconds: 900 });
    const made = site.submit();
    await site.ready(0);
    site.clock.advance(100_000);
    site.pool.slots.setScaling(sampleScaling({ maxReplicas: 1, responseGracePeriodSeconds: 200 }));
    site.clock.advance(100_000 - TICK_MS);
    expect(made.outcome).toBe(null);
    site.clock.advance(TICK_MS);
    expect(made.outcome).toEqual({ kind: "timed_out", afterMs: 200_000 });
  });
});

describe("a cancelled call", () => {
  verifies("cancel.kill", "has its replica killed when its code goes on for 5 s, not before", async () => {
    const site = await PoolByHand.open();
    const made = site.submit();
    const replica = await site.ready(0);
    await replica.hears("CALL", made.call);
    site.pool.slots.abandon(made.call, { kind: "cancelled" });
    expect(made.outcome).toEqual({ kind: "cancelled" });
    await replica.hears("CANCEL", made.call);
    const next = site.submit();
    site.clock.advance(4_999);
    expect([replica.kills, next.call.holder]).toEqual([0, null]);
    site.clock.advance(1);
    expect(replica.kills).toBe(1);
    await until("another replica is started", () => site.seats.started.length === 2);
    await site.answer(await site.ready(1), next);
    // That end was our own doing.
    expect([site.exits, site.pool.counts.deaths]).toEqual([["killed by SIGKILL"], 0]);
  });

  test("whose code stops in time costs nothing", async () => {
    const site = await PoolByHand.open();
    const made = site.submit();
    const replica = await site.ready(0);
    site.pool.slots.abandon(made.call, { kind: "cancelled" });
    site.clock.advance(4_999);
    replica.stopped(made.call);
    await until("the slot is free", () => site.pool.replicas.values().next().value?.calls.size === 0);
    site.clock.advance(20_000);
    expect(replica.kills).toBe(0);
    await site.answer(replica, site.submit());
  });

  verifies(
    "cancel.drain-first",
    "and does not stop: with others beside it, its replica finishes those first and takes no more",
    async () => {
      const site = await PoolByHand.open({ replicaConcurrency: 2, maxReplicas: 2 });
      const [stuck, beside] = site.submitAll(2);
      const replica = await site.ready(0);
      await replica.hears("CALL", beside!.call);
      site.pool.slots.abandon(stuck!.call, { kind: "cancelled" });
      site.clock.advance(5_000);
      await replica.hears("STOP");
      expect([replica.kills, site.pool.readyCount]).toEqual([0, 0]);
      // Work goes elsewhere, however long the other call takes.
      const next = site.submit();
      await site.answer(await site.ready(1), next);
      site.clock.advance(60_000);
      expect(replica.kills).toBe(0);
      await site.answer(replica, beside!);
      site.clock.advance(50);
      expect(replica.kills).toBe(1);
      await until("it is gone", () => site.exits.length > 0);
      expect(site.pool.counts.deaths).toBe(0);
    },
  );

  test("that waits leaves the queue and frees nothing", async () => {
    const site = await PoolByHand.open();
    const [held, waiting, last] = site.submitAll(3);
    const replica = await site.ready(0);
    site.pool.slots.abandon(waiting!.call, { kind: "cancelled" });
    expect([waiting!.outcome, site.pool.slots.waiting]).toEqual([{ kind: "cancelled" }, 1]);
    await site.answer(replica, held!);
    await site.answer(replica, last!);
    expect(replica.told.filter((words) => words.startsWith("CALL"))).toHaveLength(2);
  });
});

describe("the cooldown", () => {
  verifies(
    ["lifecycle.cooldown", "lifecycle.scale-to-zero"],
    "begins anew with each call; when it is over an idle replica is told to stop, and gets no more calls",
    async () => {
      const site = await PoolByHand.open({ cooldownSeconds: 30 });
      const first = site.submit();
      const replica = await site.ready(0);
      site.clock.advance(600_000); // A call that goes on is no idle time.
      await site.answer(replica, first);
      site.clock.advance(29_999);
      await site.answer(replica, site.submit());
      site.clock.advance(29_999);
      expect(site.pool.readyCount).toBe(1);
      site.clock.advance(1);
      await replica.hears("STOP");
      expect(site.pool.readyCount).toBe(0);
      const next = site.submit();
      expect([site.seats.started.length, next.call.holder]).toEqual([2, null]);
      replica.exit();
      await until("the first is gone", () => site.exits.length === 1);
      expect(site.pool.counts.deaths).toBe(0);
    },
  );
});

describe("an app that cannot start", () => {
  test("refuses who waits at once, and who comes, with the time after which it is tried again", async () => {
    const site = await PoolByHand.open();
    const [waiting, second] = [site.submit(), site.submit("backlog")];
    await site.replica(0).failToImport("ValueError: no model");
    const refusal = { kind: "refused", code: "app_not_ready", message: "ValueError: no model" };
    expect(await site.ended(waiting)).toEqual(refusal);
    expect(second.outcome).toEqual(refusal);
    expect([site.pool.isHeldBack, site.pool.slots.backlogRoom]).toEqual([true, 0]);
    expect(site.submit().outcome).toEqual({ ...refusal, retryAfterSeconds: 1 });
    expect(await site.pool.started(1, NEVER)).toMatchObject({ message: "ValueError: no model" });
    // A quarter of a second after the first time, and a fifth of that more at most.
    site.clock.advance(300);
    expect([site.pool.isHeldBack, site.pool.slots.backlogRoom]).toEqual([false, 1]);
    expect(site.pool.fleet.startFailure).not.toBeNull();
    const again = site.submit();
    expect([again.outcome, site.seats.started.length]).toEqual([null, 2]);
    const started = site.pool.started(1, NEVER);
    await site.answer(await site.ready(1), again);
    expect(await started).toBe(null);
  });
});

describe("a drain", () => {
  test("refuses what comes and the waiting backlog at once, serves waiting callers, then ends the replicas", async () => {
    const site = await PoolByHand.open();
    const running = site.submit("backlog");
    const replica = await site.ready(0);
    const caller = site.submit();
    const backlog = site.submit("backlog");
    let isOver = false;
    const drained = site.pool.slots.drain().then(() => (isOver = true));
    expect([backlog.outcome, site.submit().outcome]).toEqual([DRAINING, DRAINING]);
    await site.answer(replica, running);
    await site.answer(replica, caller);
    expect(replica.told).not.toContain("STOP 0");
    site.clock.advance(TICK_MS);
    await replica.hears("STOP");
    expect(isOver).toBe(false);
    replica.exit();
    await drained;
    expect([site.exits, site.pool.replicas.size]).toEqual([["exit code 0"], 0]);
  });

  verifies(
    "lifecycle.in-flight",
    "leaves what is in flight its response_grace_period, and a replica that ignores even that is killed",
    async () => {
      const site = await PoolByHand.open({ responseGracePeriodSeconds: 30 });
      const running = site.submit();
      const replica = await site.ready(0);
      await replica.hears("CALL", running.call);
      const drained = site.pool.slots.drain();
      await replica.hears("STOP");
      site.clock.advance(30_000 - TICK_MS);
      expect(running.outcome).toBe(null);
      site.clock.advance(TICK_MS);
      expect(running.outcome).toEqual({ kind: "timed_out", afterMs: 30_000 });
      site.clock.advance(4_999);
      expect(replica.kills).toBe(0);
      site.clock.advance(1);
      expect(replica.kills).toBe(1);
      await drained;
    },
  );

  test("ends what cannot be waited for when the pool is closed", async () => {
    const site = await PoolByHand.open();
    const [running, waiting] = site.submitAll(2);
    const replica = await site.ready(0);
    const drained = site.pool.slots.drain();
    await site.pool.close({ kind: "refused", code: "interrupted" });
    expect([running!.outcome, waiting!.outcome]).toEqual([
      { kind: "refused", code: "interrupted" },
      { kind: "refused", code: "interrupted" },
    ]);
    expect(replica.kills).toBe(1);
    await drained;
  });
});

test("the functions that a second replica offers are kept once if they are the same", async () => {
  const site = await PoolByHand.open({ maxReplicas: 2, minReplicas: 2 });
  await site.ready(0);
  const { functions } = site.pool;
  expect([...(functions?.keys() ?? [])]).toEqual(["run"]);
  await site.ready(1, 2);
  expect(site.pool.functions).toBe(functions);
});

test("of a cold start, a call waited for the part of setup() that was left when it came", async () => {
  const site = await PoolByHand.open();
  const early = site.submit();
  site.clock.advance(500);
  const late = site.submit();
  site.clock.advance(100);
  await site.replica(0).hello(300);
  await until("it is ready", () => site.pool.readyCount === 1);
  await site.answer(site.replica(0), early);
  await site.answer(site.replica(0), late);
  expect([early, late].map(({ call }) => [call.coldMs, call.setupMs])).toEqual([
    [600, 300],
    [100, 100],
  ]);
  const warm = site.submit();
  await site.answer(site.replica(0), warm);
  expect([warm.call.coldMs, warm.call.setupMs]).toEqual([0, 0]);
});
