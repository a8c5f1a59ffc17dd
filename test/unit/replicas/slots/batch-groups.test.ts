import { expect, test } from "vitest";
import { retainedBytes } from "../../../support/retained-bytes.ts";
import { BatchWorld } from "./batch-world.ts";

test("a key is forgotten when none of its calls is left", () => {
  const world = new BatchWorld({ run: { key: "model" } });
  const [replica] = world.replicas;
  const call = (from: number, to: number): void => {
    for (let i = from; i < to; i++) replica!.finish(world.submit({ fields: { model: `${i}`.padEnd(250) } }));
    world.executions.length = 0;
  };
  call(0, 5_000);
  const before = retainedBytes();
  call(5_000, 45_000);
  // Were they kept, it would be 20 MB.
  expect(retainedBytes() - before).toBeLessThan(10_000_000);
});

test("a call waits no longer than max_wait while other slots become free all the time", () => {
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
});

test("a version without steppers runs calls that waited for one of the version before in its slots", () => {
  const before = new BatchWorld({ generate: { stepper: "Decoder" } });
  const after = new BatchWorld({});
  const call = before.submit({ functionName: "generate" });
  before.slots.heir = after.slots;
  expect([call.handed, call.isStepped]).toEqual([1, false]);
});

test("a batch has no more bytes than fit into a frame", () => {
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
