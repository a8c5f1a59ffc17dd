import { expect, test } from "vitest";
import { verifies } from "../../../verifies.ts";
import { BatchWorld } from "./batch-world.ts";

verifies(
  "batching.max-wait",
  "a call waits for others no longer than max_wait, however often its slot is used by short calls meanwhile",
  () => {
    const world = new BatchWorld({ run: {} });
    const { clock } = world;
    const [replica] = world.replicas;
    replica!.takesMs = (calls, functionName) => (functionName === "plain" ? 0.3 : 200 + calls);
    // Ten callers who ask again 0.1 ms after each other; later only one of them.
    let nextAt = 0;
    world.onEnd = ({ functionName }) => {
      if (functionName !== "run" || clock.nowMs > 4_000) return;
      nextAt = Math.max(nextAt, clock.nowMs) + 0.1;
      clock.after(nextAt - clock.nowMs, () => world.submit());
    };
    for (let i = 0; i < 10; i++) world.submit();
    clock.advance(4_500);
    const plain = clock.every(1, () => world.submit({ functionName: "plain" }));
    clock.advance(2.5);
    const call = world.submit();
    clock.advance(1_000);
    plain.cancel();
    expect(call.handed).toBe(1);
    expect(call.handedAt - call.enqueuedAt).toBeLessThanOrEqual(11);
  },
);

verifies(
  "batching.crash",
  "a process that dies during a batch uses up no attempt of async runs, also while the service stops",
  async () => {
    const world = new BatchWorld({ run: {} });
    const first = world.submit({ lane: "backlog" });
    const batch = [world.submit({ lane: "backlog" }), world.submit({ lane: "backlog" }), world.submit()];
    const [replica] = world.replicas;
    replica!.finish(first);
    expect(world.executions.at(-1)?.calls).toHaveLength(3);
    await world.slots.drain();
    replica!.die();
    expect(batch.map(({ outcome }) => outcome?.kind)).toEqual(["refused", "refused", "died"]);
    expect(batch[0]!.outcome).toEqual({ kind: "refused", code: "draining" });
  },
);

test("the oldest call is refused in time, and served first, after an older one of another group was cancelled", () => {
  const world = new BatchWorld({ run: { key: "model" } }, { maxQueueSeconds: 10 });
  const { clock, replicas } = world;
  const running = world.submit({ functionName: "plain" });
  const cancelled = world.submit({ fields: { model: "a" } });
  clock.advance(1_000);
  const second = world.submit({ fields: { model: "b" } });
  clock.advance(8_000);
  const third = world.submit({ fields: { model: "a" } });
  world.slots.abandon(cancelled, { kind: "cancelled" });
  expect(world.slots.oldestWaitMs).toBe(8_000);
  clock.advance(2_010);
  expect([second.outcome?.kind, third.outcome]).toEqual(["refused", null]);
  replicas[0]!.finish(running);
  expect(world.executions.at(-1)?.calls).toEqual([third]);
});

verifies("batching.crash", "a call that has to run alone does so in another version's slots too", () => {
  const world = new BatchWorld({ run: {} });
  const heir = new BatchWorld({ run: {} });
  const first = world.submit();
  const calls = [world.submit(), world.submit(), world.submit()];
  world.replicas[0]!.finish(first);
  const running = heir.submit();
  // They wait: another call takes the slot.
  world.replicas[0]!.takesMs = null;
  world.replicas[0]!.die();
  expect(world.slots.waiting).toBe(2);
  world.slots.heir = heir.slots;
  heir.submit();
  heir.replicas[0]!.finish(running);
  for (let at = 1; at < heir.executions.length; at++)
    for (const call of heir.executions[at]!.calls) heir.replicas[0]!.finish(call);
  expect(heir.executions.map(({ calls }) => calls.length)).toEqual([1, 1, 1, 1]);
  expect(calls.filter(({ outcome }) => outcome?.kind === "returned")).toHaveLength(2);
});
