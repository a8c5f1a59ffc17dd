import * as fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../verifies.ts";
import { type Execution, BATCHING, BatchWorld, type PlayedCall } from "./batch-world.ts";

const FIXED_MS = 5;
const PER_CALL_MS = 0.2;

type Callers = { readonly count: number; readonly gapMs: number; readonly maxSize?: number };

/** Calls per second of callers that ask again when they are answered, which takes `gapMs` for one after the other. */
function rateOf({ count, gapMs, maxSize = 64 }: Callers, forMs = 4_000): number {
  const world = new BatchWorld({ run: { maxSize } });
  const { clock, replicas } = world;
  replicas[0]!.takesMs = (calls) => FIXED_MS + PER_CALL_MS * calls;
  let answered = 0;
  let nextAt = 0;
  world.onEnd = () => {
    answered += 1;
    nextAt = Math.max(nextAt, clock.nowMs) + gapMs;
    clock.after(nextAt - clock.nowMs, () => world.submit());
  };
  for (let i = 0; i < count; i++) world.submit();
  clock.advance(forMs);
  answered = 0;
  clock.advance(forMs);
  return (answered * 1_000) / forMs;
}

/** The same with a replica that waits for `size` calls, or `waitMs` after the first, whatever it could learn. */
function staticRate({ count, gapMs }: Callers, size: number, waitMs: number, forMs = 4_000): number {
  let now = 0;
  let answered = 0;
  let nextAt = 0;
  const due: number[] = Array.from({ length: count }, () => 0);
  while (now < forMs) {
    due.sort((one, other) => one - other);
    const first = Math.max(now, due[0]!);
    const full = due[size - 1] ?? Infinity;
    now = Math.max(first, Math.min(full, due[0]! + waitMs));
    const taken = due.filter((at) => at <= now).slice(0, size);
    due.splice(0, taken.length);
    now += FIXED_MS + PER_CALL_MS * taken.length;
    for (const _ of taken) {
      nextAt = Math.max(nextAt, now) + gapMs;
      due.push(nextAt);
    }
    answered += taken.length;
  }
  return (answered * 1_000) / now;
}

for (const gapMs of [0.02, 0.05, 0.08, 0.12])
  for (const count of [2, 8, 32, 64, 100])
    verifies(
      "batching.untuned",
      `${count} callers who are answered ${gapMs} ms apart are served as well as with the best fixed size and wait`,
      () => {
        const rates = [4, 8, 16, 32, 48, 64].flatMap((size) =>
          [0, 2, 5, 10].map((waitMs) => staticRate({ count, gapMs }, size, waitMs)),
        );
        expect(rateOf({ count, gapMs }) / Math.max(...rates)).toBeGreaterThan(0.95);
      },
    );

verifies("batching.alone", "a caller who is alone never waits for others", () => {
  const world = new BatchWorld({ run: {} });
  world.replicas[0]!.takesMs = (calls) => FIXED_MS + PER_CALL_MS * calls;
  world.onEnd = () => world.clock.after(0.3, () => world.submit());
  world.submit();
  world.clock.advance(2_000);
  const waits = world.executions.flatMap(({ calls }) => calls.map((call) => call.handedAt - call.enqueuedAt));
  expect(world.executions.length).toBeGreaterThan(300);
  expect(Math.max(...waits)).toBe(0);
});

verifies("batching.idle", "calls that come by chance do not wait while a replica is idle", () => {
  const world = new BatchWorld({ run: {} });
  world.replicas[0]!.takesMs = (calls) => FIXED_MS + PER_CALL_MS * calls;
  let random = 7;
  const submit = (): void => {
    world.submit();
    random = (random * 1_103_515_245 + 12_345) & 0x7fffffff;
    world.clock.after(-Math.log((random + 1) / 2 ** 31) * 100, submit);
  };
  submit();
  world.clock.advance(60_000);
  const waits = world.executions.map(({ calls: [first] }) => first!.handedAt - first!.enqueuedAt);
  // A call may meet a replica that is busy with the one before, for its 5.2 ms.
  expect(Math.max(...waits)).toBeLessThanOrEqual(FIXED_MS + 3 * PER_CALL_MS);
});

verifies(
  ["batching.key", "batching.size"],
  "a key keeps calls with other values apart, and a size bounds the sum",
  () => {
    const world = new BatchWorld({ run: { key: "model", size: "text", maxSize: 10 } });
    world.submit({ fields: { model: "a", text: "x" } });
    const fields = [
      { model: "a", text: "xxxx" },
      { model: "b", text: "xxxx" },
      { model: "a", text: "xxxxxxx" },
      { model: "a", text: "x" },
      { model: "b", text: ["1", "2"] },
      { model: "a", text: "x".repeat(99) },
      { text: "x" },
    ];
    const calls = fields.map((each) => world.submit({ fields: each }));
    const [replica] = world.replicas;
    for (let execution = 0; execution < world.executions.length; execution++)
      for (const call of world.executions[execution]!.calls) replica!.finish(call);
    const together = world.executions.slice(1).map((each) => each.calls.map((call) => calls.indexOf(call)));
    expect(together).toEqual([[0], [1, 4], [2, 3], [5], [6]]);
  },
);

test("async runs fill the batch of callers, and the other way round", () => {
  const world = new BatchWorld({ run: { maxSize: 3 } });
  world.submit();
  const calls = [
    world.submit({ lane: "backlog" }),
    world.submit(),
    world.submit({ lane: "backlog" }),
    world.submit({ lane: "backlog" }),
  ];
  world.replicas[0]!.finish(world.executions[0]!.calls[0]!);
  expect(world.executions[1]!.calls.map((call) => calls.indexOf(call))).toEqual([1, 0, 2]);
  expect(world.slots.waiting).toBe(1);
});

verifies(
  "batching.crash",
  "after a crash each call of a batch runs alone, and only a crash alone ends it",
  () => {
    const world = new BatchWorld({ run: {} });
    const first = world.submit();
    const [one, two, streamed] = [world.submit(), world.submit(), world.submit()];
    const [replica] = world.replicas;
    replica!.finish(first);
    streamed.mayRunAgain = false;
    replica!.die();
    expect([one.outcome, two.outcome, streamed.outcome?.kind]).toEqual([null, null, "died"]);
    replica!.finish(one);
    expect(one.outcome?.kind).toBe("returned");
    replica!.die();
    expect(two.outcome?.kind).toBe("died");
    expect(world.executions.map(({ calls }) => calls.length)).toEqual([1, 3, 1, 1]);
  },
);

verifies(
  "batching.slots",
  "a batch is one slot: of the replica's, of the queue's and of what scaling counts",
  () => {
    const world = new BatchWorld({ run: {} }, { replicaConcurrency: 2 });
    const [first, second] = [world.submit(), world.submit()];
    for (let i = 0; i < 10; i++) world.submit();
    expect(world.slots.demand().calls).toBe(3);
    expect(world.slots.waiting).toBe(10);
    world.replicas[0]!.finish(first);
    expect(world.slots.demand().calls).toBe(2);
    world.replicas[0]!.finish(second);
    expect([world.slots.demand().calls, world.slots.waiting]).toEqual([1, 0]);
  },
);

type Step =
  | {
      readonly do: "submit";
      readonly key: number;
      readonly size: number;
      readonly isAsync: boolean;
      readonly isPlain: boolean;
    }
  | { readonly do: "finish" | "abandon"; readonly which: number }
  | { readonly do: "die"; readonly which: number }
  | { readonly do: "pass"; readonly ms: number };

const which = fc.nat(50);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("submit" as const),
      key: fc.nat(2),
      size: fc.nat(6),
      isAsync: fc.boolean(),
      isPlain: fc.boolean(),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("finish" as const), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("abandon" as const), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("die" as const), which: fc.nat(1) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: 30 }) }),
  },
);

function isWellFormed({ calls, hasLoner }: Execution, maxSize: number): boolean {
  const [first] = calls;
  if (first?.functionName === "plain") return calls.length === 1;
  const keyOf = ({ body }: PlayedCall) => (JSON.parse(body.toString()) as { key: number }).key;
  const size = calls.reduce((sum, call) => sum + call.size, 0);
  const isOneKey = calls.every((call) => call.functionName === "run" && keyOf(call) === keyOf(first!));
  return isOneKey && (calls.length === 1 || (size <= maxSize && !hasLoner));
}

verifies(
  "batching.dispatch",
  "whatever happens, each call ends once, in a batch of its own kind, and none is left",
  () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 120 }),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 2 }),
        fc.boolean(),
        (steps, maxSize, concurrency, drains) => {
          const rules = { ...BATCHING, key: "key", size: "size", maxSize };
          const world = new BatchWorld({ run: rules }, { replicaConcurrency: concurrency }, 2);
          const calls: PlayedCall[] = [];
          const ends = new Map<PlayedCall, number>();
          world.onEnd = (call) => ends.set(call, (ends.get(call) ?? 0) + 1);
          const held = () =>
            world.replicas.flatMap((replica) => [...replica.held].map((call) => [replica, call] as const));
          const finish = (at: number): void => {
            const all = held();
            const [replica, call] = all[at % Math.max(1, all.length)] ?? [];
            if (call) replica!.finish(call, call.isCancelled ? { kind: "cancelled" } : undefined);
          };
          for (const each of steps) {
            if (each.do === "submit") {
              const functionName = each.isPlain ? "plain" : "run";
              const fields = { key: each.key, size: each.size };
              calls.push(world.submit({ lane: each.isAsync ? "backlog" : "caller", functionName, fields }));
            } else if (each.do === "finish") finish(each.which);
            else if (each.do === "die") world.replicas[each.which]!.die();
            else if (each.do === "pass") world.clock.advance(each.ms);
            else {
              const call = calls[each.which % Math.max(1, calls.length)];
              if (call && !call.hasEnded) world.slots.abandon(call, { kind: "cancelled" });
            }
            for (const { busy } of world.replicas) expect(busy).toBeLessThanOrEqual(concurrency);
          }
          if (drains) void world.slots.drain();
          for (
            let left = 2 * calls.length + 2;
            left > 0 && (held().length > 0 || world.slots.waiting > 0);
            left--
          ) {
            while (held().length > 0) finish(0);
            world.clock.advance(20);
          }
          expect([held().length, world.slots.waiting, world.slots.demand().calls]).toEqual([0, 0, 0]);
          for (const call of calls) expect(ends.get(call)).toBe(1);
          for (const execution of world.executions) expect(isWellFormed(execution, maxSize)).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  },
);
