import { expect, test } from "vitest";
import { retainedBytes } from "../../../support/retained-bytes.ts";
import { verifies } from "../../../verifies.ts";
import { BatchWorld } from "./batch-world.ts";

verifies("batching.key-memory", "a key is forgotten when none of its calls is left", () => {
  const world = new BatchWorld({ run: { key: "model" } });
  const [replica] = world.replicas;
  const call = (from: number, to: number): void => {
    for (let i = from; i < to; i++) {
      const fields = { model: `${i}`.padEnd(250) };
      replica!.finish(world.submit({ fields, lane: i % 2 === 0 ? "caller" : "backlog" }));
    }
    world.executions.length = 0;
  };
  const heapBytes = (): number => {
    retainedBytes();
    // Without buffers: those of the bodies are given back a moment after the collection.
    return process.memoryUsage().heapUsed;
  };
  call(0, 5_000);
  const before = heapBytes();
  call(5_000, 15_000);
  // Were they kept, it would be 5 MB.
  expect(heapBytes() - before).toBeLessThan(1_000_000);
});

verifies(
  "batching.max-wait",
  "a call waits no longer than max_wait while other slots become free all the time",
  () => {
    const world = new BatchWorld({ run: {} }, {}, 2);
    const { clock, replicas } = world;
    for (const replica of replicas) replica.takesMs = (calls) => 5 + 0.2 * calls;
    let nextAt = 0;
    world.onEnd = () => {
      nextAt = Math.max(nextAt, clock.nowMs) + 0.05;
      if (nextAt < 2_000) clock.after(nextAt - clock.nowMs, () => world.submit());
    };
    for (let i = 0; i < 20; i++) world.submit();
    clock.advance(2_100);
    // Of these callers only one comes back. It finds a slot free, beside that of a caller of another function.
    for (const replica of replicas) replica.takesMs = null;
    let plain = world.submit({ functionName: "plain" });
    const callPlain = (times: number): void => {
      for (let i = 0; i < times; i++) {
        clock.advance(0.5);
        for (const replica of replicas) replica.finish(plain);
        plain = world.submit({ functionName: "plain" });
      }
    };
    callPlain(1);
    const call = world.submit();
    callPlain(100);
    expect(call.handed).toBe(1);
    expect(call.handedAt - call.enqueuedAt).toBeLessThanOrEqual(10.5);
  },
);

test("a version without steppers runs calls that waited for one of the version before in its slots", () => {
  const before = new BatchWorld({ generate: { stepper: "Decoder" } });
  const after = new BatchWorld({});
  const call = before.submit({ functionName: "generate" });
  before.slots.heir = after.slots;
  expect([call.handed, call.isStepped]).toEqual([1, false]);
});

verifies("batching.bytes", "a batch has no more bytes than fit into a frame", () => {
  const world = new BatchWorld({ run: {} });
  const first = world.submit();
  const body = Buffer.alloc(100 * 1024 * 1024);
  const calls = Array.from({ length: 5 }, (_, index) =>
    world.submit({ lane: index % 2 === 0 ? "caller" : "backlog", body }),
  );
  world.replicas[0]!.finish(first);
  for (let execution = 1; execution < world.executions.length; execution++)
    for (const call of world.executions[execution]!.calls) world.replicas[0]!.finish(call);
  const together = world.executions.slice(1).map((each) => each.calls.map((call) => calls.indexOf(call)));
  expect(together).toEqual([[0, 2], [4, 1], [3]]);
});

verifies("batching.target", "calls that come at once are shared out so that each is answered in time", () => {
  const latenciesFor = (targetLatencySeconds: number | null): number[] => {
    const world = new BatchWorld({ run: { targetLatencySeconds, maxSize: 1000 } }, {}, 4);
    const { clock } = world;
    for (const replica of world.replicas) replica.takesMs = (calls) => 5 + 0.2 * calls;
    const latencies: number[] = [];
    world.onEnd = ({ enqueuedAt }) => latencies.push(clock.nowMs - enqueuedAt);
    for (let burst = 0; burst < 50; burst++) {
      // The first four find the replicas idle; the others wait for those to end.
      for (let call = 0; call < 200; call++) world.submit();
      clock.advance(200);
    }
    return latencies.slice(latencies.length / 2);
  };
  const lateShare = (latencies: number[]): number =>
    latencies.filter((ms) => ms > 30).length / latencies.length;
  expect(lateShare(latenciesFor(0.03))).toBeLessThan(0.05);
  expect(lateShare(latenciesFor(null))).toBeGreaterThan(0.5);
});

verifies("batching.target", "a target that cannot be met makes no call slower", () => {
  /** The 95th of 100 latencies of callers that call again at once, or come one each so many milliseconds. */
  const p95 = (targetLatencySeconds: number | null, callers: number, everyMs: number | null): number => {
    const world = new BatchWorld({ run: { targetLatencySeconds } });
    const { clock } = world;
    world.replicas[0]!.takesMs = (calls) => 5 + 0.2 * calls;
    const latencies: number[] = [];
    world.onEnd = ({ enqueuedAt }) => {
      latencies.push(clock.nowMs - enqueuedAt);
      if (everyMs === null) clock.after(0.1, () => world.submit());
    };
    for (let call = 0; call < callers; call++) world.submit();
    for (let step = 0; step < 20_000; step++) {
      clock.advance(everyMs ?? 0.1);
      if (everyMs !== null) world.submit();
    }
    const later = latencies.slice(latencies.length / 2).toSorted((a, b) => a - b);
    return later[Math.floor(later.length * 0.95)]!;
  };
  for (const [callers, everyMs] of [
    [64, null],
    [200, null],
    [0, 0.32],
  ] as const)
    for (const target of [0.006, 0.01, 0.015])
      expect(p95(target, callers, everyMs)).toBeLessThan(1.05 * p95(null, callers, everyMs));
});

verifies(
  "stepper.beside",
  "steppers and slots work side by side, so that one replica is enough for a call of each",
  () => {
    const world = new BatchWorld({ one: { stepper: "One" }, two: { stepper: "Two" } });
    const [replica] = world.replicas;
    // Its capacity is not known while it starts.
    world.submit({ functionName: "one" });
    expect(world.slots.demand().calls).toBe(1);
    replica!.steppers = { one: 2, two: 2 };
    world.slots.handOver();
    world.submit({ functionName: "two" });
    world.submit({ functionName: "plain" });
    expect([replica!.held.size, world.slots.demand().calls]).toEqual([3, 1]);
    for (let i = 0; i < 2; i++) world.submit({ functionName: "one" });
    expect([replica!.held.size, world.slots.demand().calls]).toEqual([4, 2]);
  },
);

verifies("stepper.beside", "async runs fill a stepper, and as many wait to follow them", () => {
  const world = new BatchWorld({ one: { stepper: "One" } });
  world.replicas[0]!.steppers = { one: 1_000 };
  while (world.slots.backlogRoom > 0) world.submit({ functionName: "one", lane: "backlog" });
  expect(world.replicas[0]!.held.size).toBe(1_000);
  expect(world.slots.waiting).toBeGreaterThanOrEqual(1_000);
});

verifies(
  "fair.batches",
  "a caller whose calls fill many batches does not hold up the single call of another",
  () => {
    const world = new BatchWorld({ run: { maxSize: 4 } });
    const [replica] = world.replicas;
    const first = world.submit({ caller: "a" });
    for (let i = 0; i < 20; i++) world.submit({ caller: "a" });
    const single = world.submit({ caller: "b" });
    replica!.finish(first);
    // The batch whose turn it was; then that of the single call, filled up with others.
    expect(single.handed).toBe(0);
    for (const call of world.executions.at(-1)!.calls) replica!.finish(call);
    expect(single.handed).toBe(1);
    const { calls, reason } = world.executions.at(-1)!;
    expect([calls.map((call) => call.fairness?.key), reason]).toEqual([["b", "a", "a", "a"], "full"]);
    while (replica!.held.size > 0) for (const call of [...replica!.held]) replica!.finish(call);
    expect(world.executions.flatMap((execution) => execution.calls)).toHaveLength(22);
  },
);

test("callers of whom none fills a batch share one", () => {
  const world = new BatchWorld({ run: { maxSize: 4 } });
  const [replica] = world.replicas;
  const first = world.submit({ caller: "a" });
  for (const caller of ["a", "b", "c", null]) world.submit({ caller });
  replica!.finish(first);
  expect(world.executions.at(-1)!.calls.map((call) => call.fairness?.key)).toEqual([
    "a",
    "b",
    "c",
    undefined,
  ]);
});

verifies("fair.full-queue", "a full queue of batches makes room for a caller who has none waiting", () => {
  const world = new BatchWorld({ run: { maxSize: 2 } }, { maxQueue: 6 });
  world.submit({ caller: "a" });
  const waiting = Array.from({ length: 6 }, () => world.submit({ caller: "a" }));
  const single = world.submit({ caller: "b" });
  expect([single.outcome, world.slots.waiting]).toEqual([null, 6]);
  expect(waiting.map((call) => call.outcome?.kind)).toEqual([...Array.from({ length: 5 }), "refused"]);
  expect(world.submit({ caller: "a" }).outcome).toMatchObject({ kind: "refused", code: "queue_full" });
});
