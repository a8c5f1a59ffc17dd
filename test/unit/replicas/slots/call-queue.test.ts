import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Call } from "../../../../src/replicas/call.ts";
import { CallQueue } from "../../../../src/replicas/slots/call-queue.ts";

/** A call that began to wait at a moment of its own. */
function waitingCall(enqueuedAt: number): Call {
  const call = new Call(String(enqueuedAt), "run", Buffer.alloc(0), { onEnd: () => {} });
  call.enqueuedAt = enqueuedAt;
  return call;
}

/** What the queue should hold, and what was taken from it. */
type Model = { waiting: Call[]; handed: Call[]; clock: number };

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant("push" as const), laterBy: fc.nat({ max: 1 }) }) },
  { weight: 3, arbitrary: fc.constant({ act: "shift" } as const) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("remove" as const), pick: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("putBack" as const), count: fc.nat({ max: 5 }) }) },
  { weight: 1, arbitrary: fc.constant({ act: "peek" } as const) },
);

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** Does a step on the queue and on a sorted list; gives what each answered. */
function doBoth(step: Step, queue: CallQueue<Call>, model: Model): [unknown, unknown] {
  switch (step.act) {
    case "push": {
      const call = waitingCall((model.clock += step.laterBy));
      model.waiting.push(call);
      return [queue.push(call), undefined];
    }
    case "shift": {
      const call = model.waiting.shift();
      if (call) model.handed.push(call);
      return [queue.shift(), call];
    }
    case "remove": {
      const known = [...model.waiting, ...model.handed];
      const call = known[step.pick % Math.max(1, known.length)] ?? waitingCall(-1);
      const isWaiting = model.waiting.includes(call);
      model.waiting = model.waiting.filter((other) => other !== call);
      return [queue.remove(call), isWaiting];
    }
    case "putBack": {
      // The latest handed over come back, as when their replica died.
      const back = model.handed.splice(Math.max(0, model.handed.length - step.count));
      model.waiting = [...back, ...model.waiting].toSorted((a, b) => a.enqueuedAt - b.enqueuedAt);
      return [queue.putBack(back), undefined];
    }
    case "peek":
      return [queue.peek(), model.waiting[0]];
    default:
      return step satisfies never;
  }
}

test("whatever happens, it holds what a sorted list would, in the same order", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const queue = new CallQueue<Call>();
      const model: Model = { waiting: [], handed: [], clock: 0 };
      for (const each of steps) {
        const [answer, expected] = doBoth(each, queue, model);
        expect(answer).toBe(expected);
        expect(queue.size).toBe(model.waiting.length);
      }
      const left = queue.takeAll();
      expect(left.length).toBe(model.waiting.length);
      for (const [place, call] of left.entries()) expect(call).toBe(model.waiting[place]);
      expect([queue.size, queue.shift()]).toEqual([0, undefined]);
    }),
    { numRuns: 300 },
  );
});

test("it keeps order over many thousand calls, with a few always waiting", () => {
  const queue = new CallQueue<Call>();
  for (let n = 0; n < 4; n++) queue.push(waitingCall(n));
  for (let n = 4; n < 10_000; n++) {
    queue.push(waitingCall(n));
    expect(queue.shift()?.enqueuedAt).toBe(n - 4);
  }
  expect(queue.takeAll().map((call) => call.enqueuedAt)).toEqual([9_996, 9_997, 9_998, 9_999]);
});

test("a call put back goes before those that came later", () => {
  const queue = new CallQueue<Call>();
  const [first, second, third] = [waitingCall(1), waitingCall(2), waitingCall(3)];
  queue.push(second);
  queue.putBack([third, first]);
  expect([queue.shift(), queue.shift(), queue.shift()]).toEqual([first, second, third]);
});
