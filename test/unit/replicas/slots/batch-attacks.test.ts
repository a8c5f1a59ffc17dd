import { expect } from "vitest";
import { retainedBytes } from "../../../support/retained-bytes.ts";
import { verifies } from "../../../verifies.ts";
import { MAX_BATCH_BYTES } from "../../../../src/replicas/slots/batches.ts";
import { CallQueue } from "../../../../src/replicas/slots/call-queue.ts";
import { BatchWorld } from "./batch-world.ts";

const finishAll = (world: BatchWorld): void => {
  for (const replica of world.replicas) {
    const held = Array.from(replica.held);
    for (const call of held) replica.finish(call);
  }
};

verifies("batching.key", "numbers that differ are different keys, however large they are", () => {
  const world = new BatchWorld({ run: { key: "tenant" } });
  const submit = (body: string) => world.submit({ body });
  submit('{"tenant":0}');
  const bodies = [
    '{"tenant":9007199254740993}',
    '{"tenant":9007199254740992}',
    '{"tenant":{"id":[9007199254740992]}}',
    '{"tenant":{"id":[9007199254740993]}}',
    '{"tenant":1e400}',
    '{"tenant":null}',
    '{"tenant":"9007199254740992"}',
    '{"x":"\\"tenant\\":1","tenant" : 9007199254740993 ,"y":[]}',
    '{"tenant":2}',
    '{"tenant":2.0}',
  ];
  const calls = bodies.map(submit);
  const seen: number[][] = [];
  while (world.replicas[0]!.held.size > 0) {
    seen.push([...world.replicas[0]!.held].map((call) => calls.indexOf(call)));
    finishAll(world);
  }
  expect(seen.slice(1)).toEqual([[0, 7], [1], [2], [3], [4], [5], [6], [8, 9]]);
});

verifies("batching.lists", "calls that come back keep the order in which they came", () => {
  const world = new BatchWorld({ run: { maxSize: 3 } });
  const [replica] = world.replicas;
  const first = world.submit();
  const calls = Array.from({ length: 6 }, () => world.submit());
  replica!.finish(first);
  const held = [...replica!.held];
  expect(held.map((call) => calls.indexOf(call))).toEqual([0, 1, 2]);
  replica!.giveBack(held);
  expect([...replica!.held].map((call) => calls.indexOf(call))).toEqual([0, 1, 2]);
});

verifies(
  "batching.cancel",
  "a cancelled call whose code does not stop ends no call of its batch that is wanted",
  () => {
    const world = new BatchWorld({ run: {} }, { responseGracePeriodSeconds: 60 });
    const [replica] = world.replicas;
    replica!.isDeaf = true;
    const first = world.submit();
    const calls = Array.from({ length: 3 }, () => world.submit());
    replica!.finish(first);
    world.slots.abandon(calls[1]!, { kind: "cancelled" });
    world.clock.advance(7_000);
    expect([...replica!.held]).toEqual(calls);
    for (const call of calls) replica!.finish(call);
    expect(calls.map(({ outcome }) => outcome?.kind)).toEqual(["returned", "cancelled", "returned"]);
    expect(calls.map(({ handed }) => handed)).toEqual([1, 1, 1]);
  },
);

verifies("batching.bytes", "the arguments of a batch are one frame, which has a largest size", () => {
  const world = new BatchWorld({ run: {} });
  const [replica] = world.replicas;
  const first = world.submit();
  const body = Buffer.alloc(100 * 1024 * 1024);
  const huge = Buffer.alloc(MAX_BATCH_BYTES + 1);
  const calls = [body, body, body, huge, body].map((each) => world.submit({ body: each }));
  replica!.finish(first);
  const seen: number[][] = [];
  while (replica!.held.size > 0) {
    seen.push([...replica!.held].map((call) => calls.indexOf(call)));
    if (seen.length === 1) replica!.giveBack([...replica!.held]);
    else finishAll(world);
  }
  expect(seen).toEqual([[0, 1], [0, 1], [2], [3], [4]]);
});

verifies("batching.target", "a call that is larger than a batch may be says nothing about batches", () => {
  const world = new BatchWorld({ run: { size: "n", maxSize: 1_000, targetLatencySeconds: 0.1 } }, {}, 5);
  const run = (n: number, ms: number): void => {
    world.submit({ fields: { n } });
    world.clock.advance(ms);
    finishAll(world);
    world.clock.advance(50);
  };
  // Each of the size takes a millisecond.
  for (const n of [10, 40, 20, 60, 30, 50, 10, 40]) run(n, n);
  run(Number.MAX_SAFE_INTEGER, 100);
  for (const n of [10, 40, 20, 60, 30, 50, 10, 40]) run(n, n);
  for (let i = 0; i < 45; i++) world.submit({ fields: { n: 10 } });
  finishAll(world);
  world.clock.advance(20);
  // Ten of them take as long as may be.
  const together = world.replicas.map(({ held }) => held.size);
  expect(together.reduce((sum, calls) => sum + calls)).toBe(40);
  expect(Math.max(...together)).toBeLessThanOrEqual(10);
});

verifies("batching.key", "places of calls that were taken out of order are not kept", () => {
  const queue = new CallQueue<{ readonly enqueuedAt: number }>();
  const push = (at: number) => {
    const call = { enqueuedAt: at };
    queue.push(call);
    return call;
  };
  const use = (count: number): void => {
    for (let at = 0; at < count; at++) {
      push(at);
      const taken = queue.find(() => true);
      if (taken) queue.remove(taken);
    }
  };
  const [first, second] = [push(0), push(0)];
  push(0);
  queue.remove(second);
  queue.remove(first);
  use(5_000);
  const before = retainedBytes();
  use(100_000);
  expect(retainedBytes() - before).toBeLessThan(400_000);
});
