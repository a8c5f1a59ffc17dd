import fc from "fast-check";
import { expect, test } from "vitest";
import { Call } from "../../../src/replicas/call.ts";
import { CallQueue } from "../../../src/replicas/call-queue.ts";

/** A call that began to wait at a moment of its own. */
function waitingCall(enqueuedAt: number): Call {
  const call = new Call(String(enqueuedAt), "run", Buffer.alloc(0), { onEnd: () => {} });
  call.enqueuedAt = enqueuedAt;
  return call;
}

const step = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ act: "push" } as const) },
  { weight: 3, arbitrary: fc.constant({ act: "shift" } as const) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("remove" as const), pick: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("putBack" as const), count: fc.nat({ max: 5 }) }) },
  { weight: 1, arbitrary: fc.constant({ act: "peek" } as const) },
);

test("whatever happens, it holds what a sorted list would, in the same order", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const queue = new CallQueue();
      let model: Call[] = [];
      const out: Call[] = [];
      let clock = 0;
      for (const step of steps) {
        if (step.act === "push") {
          const call = waitingCall(clock++);
          queue.push(call);
          model.push(call);
        } else if (step.act === "shift") {
          const call = model.shift();
          expect(queue.shift()).toBe(call);
          if (call) out.push(call);
        } else if (step.act === "remove") {
          const call = [...model, ...out][step.pick % (model.length + out.length || 1)];
          if (call) expect(queue.remove(call)).toBe(model.includes(call));
          model = model.filter((other) => other !== call);
        } else if (step.act === "putBack") {
          // The latest handed over come back, as when their replica died.
          const back = out.splice(Math.max(0, out.length - step.count));
          queue.putBack(back);
          model = [...back, ...model].toSorted((a, b) => a.enqueuedAt - b.enqueuedAt);
        } else {
          expect(queue.peek()).toBe(model[0]);
        }
        expect(queue.size).toBe(model.length);
      }
      expect(queue.takeAll()).toEqual(model);
      expect(queue.size).toBe(0);
      expect(queue.shift()).toBeUndefined();
    }),
    { numRuns: 300 },
  );
});

test("it keeps order over many thousand calls, with a few always waiting", () => {
  const queue = new CallQueue();
  let next = 0;
  let expected = 0;
  for (let round = 0; round < 10_000; round++) {
    queue.push(waitingCall(next++));
    if (round > 3) expect(queue.shift()?.enqueuedAt).toBe(expected++);
  }
  expect(queue.takeAll().map((call) => call.enqueuedAt)).toEqual([9_996, 9_997, 9_998, 9_999]);
});

test("a call put back goes before those that came later", () => {
  const queue = new CallQueue();
  const [first, second, third] = [waitingCall(1), waitingCall(2), waitingCall(3)];
  queue.push(second);
  queue.putBack([third, first]);
  expect([queue.shift(), queue.shift(), queue.shift()]).toEqual([first, second, third]);
});
