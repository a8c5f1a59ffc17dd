import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Call } from "../../../../src/replicas/call.ts";
import type { Lane } from "../../../../src/replicas/slots/capacity.ts";
import { CallQueue } from "../../../../src/replicas/slots/call-queue.ts";
import { isBacklogsTurn, Lanes } from "../../../../src/replicas/slots/lanes.ts";

/** A call of a lane that began to wait at a moment of its own. */
function waitingCall(lane: Lane, enqueuedAt: number): Call {
  const call = new Call(`${lane[0]}${enqueuedAt}`, "run", Buffer.alloc(0), { onEnd: () => {} }, lane);
  call.enqueuedAt = enqueuedAt;
  return call;
}

/** Lanes in which so many of each wait. */
function lanesOf(callers: number, backlog: number): Lanes<Call> {
  const lanes = new Lanes<Call>();
  for (let n = 0; n < backlog; n++) lanes.push(waitingCall("backlog", n));
  for (let n = 0; n < callers; n++) lanes.push(waitingCall("caller", n));
  return lanes;
}

/** The names of the next calls, all of them unless told how many. */
function take(lanes: Lanes<Call>, count = lanes.size): string {
  return Array.from({ length: count }, () => lanes.shift()?.runId).join(" ");
}

test("callers go before a backlog that waited longer, which gets every fourth slot", () => {
  expect(take(lanesOf(8, 4))).toBe("c0 c1 c2 b0 c3 c4 c5 b1 c6 c7 b2 b3");
});

test("slots that callers had while no backlog waited do not count", () => {
  const lanes = lanesOf(9, 0);
  expect(take(lanes, 5)).toBe("c0 c1 c2 c3 c4");
  lanes.push(waitingCall("backlog", 0));
  expect(take(lanes)).toBe("c5 c6 c7 b0 c8");
});

test("slots that the backlog had alone do not count either", () => {
  const lanes = lanesOf(0, 6);
  expect(take(lanes, 4)).toBe("b0 b1 b2 b3");
  for (let n = 0; n < 4; n++) lanes.push(waitingCall("caller", n));
  expect(take(lanes)).toBe("c0 c1 c2 b4 c3 b5");
});

test("a new call is a caller's unless it says otherwise", () => {
  expect(new Call("id", "run", Buffer.alloc(0), { onEnd: () => {} }).lane).toBe("caller");
});

test("calls put back stand in their own lanes, in their old places", () => {
  const lanes = lanesOf(3, 3);
  const taken = [lanes.shift(), lanes.shift(), lanes.shift(), lanes.shift()].filter(
    (call) => call !== undefined,
  );
  expect(taken.map(({ runId }) => runId)).toEqual(["c0", "c1", "c2", "b0"]);
  lanes.push(waitingCall("caller", 3));
  lanes.putBack(taken.toReversed());
  expect([lanes.callers.size, lanes.backlog.size]).toEqual([4, 3]);
  expect(take(lanes)).toBe("c0 c1 c2 b0 c3 b1 b2");
});

test("a call is taken out of its own lane, once", () => {
  const lanes = lanesOf(1, 1);
  const [caller, backlog] = [lanes.callers.peek(), lanes.backlog.peek()];
  expect(backlog && lanes.remove(backlog)).toBe(true);
  expect(backlog && lanes.remove(backlog)).toBe(false);
  expect([lanes.size, lanes.shift(), lanes.shift()]).toEqual([1, caller, undefined]);
});

test("it can be emptied", () => {
  const lanes = lanesOf(2, 2);
  expect(lanes.takeAll().map(({ runId }) => runId)).toEqual(["c0", "c1", "b0", "b1"]);
  expect([lanes.size, lanes.shift()]).toEqual([0, undefined]);
});

test("whatever comes and goes, no caller is passed by the backlog twice in a row, nor it by four callers", () => {
  const step = fc.constantFrom("caller" as const, "backlog" as const, "shift" as const, "shift" as const);
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const lanes = new Lanes<Call>();
      let sinceBacklog = 0;
      let sinceCaller = 0;
      for (const [at, each] of steps.entries()) {
        if (each !== "shift") {
          lanes.push(waitingCall(each, at));
          continue;
        }
        const bothWait = lanes.callers.size > 0 && lanes.backlog.size > 0;
        const lane = lanes.shift()?.lane;
        sinceBacklog =
          bothWait && lane === "caller" ? sinceBacklog + 1 : lane === "backlog" ? 0 : sinceBacklog;
        sinceCaller = bothWait && lane === "backlog" ? sinceCaller + 1 : 0;
        expect(sinceBacklog).toBeLessThanOrEqual(3);
        expect(sinceCaller).toBeLessThanOrEqual(1);
      }
    }),
  );
});

test("a lane that waits alone has every turn", () => {
  for (const passedBy of [0, 1, 2, 3]) {
    expect(isBacklogsTurn(0, 1, passedBy)).toBe(true);
    expect(isBacklogsTurn(1, 0, passedBy)).toBe(false);
  }
});

test("while both wait, three callers go first and the fourth slot is the backlog's", () => {
  expect([0, 1, 2, 3, 4].map((passedBy) => isBacklogsTurn(9, 9, passedBy))).toEqual([
    false,
    false,
    false,
    true,
    true,
  ]);
});

test("how many wait does not matter, only whether any do", () => {
  const some = fc.integer({ min: 1, max: 1_000 });
  fc.assert(
    fc.property(some, some, fc.nat(10), (callers, backlog, passedBy) => {
      expect(isBacklogsTurn(callers, backlog, passedBy)).toBe(isBacklogsTurn(1, 1, passedBy));
    }),
  );
});

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
      const call = waitingCall("caller", (model.clock += step.laterBy));
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
      const call = known[step.pick % Math.max(1, known.length)] ?? waitingCall("caller", -1);
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
  for (let n = 0; n < 4; n++) queue.push(waitingCall("caller", n));
  for (let n = 4; n < 10_000; n++) {
    queue.push(waitingCall("caller", n));
    expect(queue.shift()?.enqueuedAt).toBe(n - 4);
  }
  expect(queue.takeAll().map((call) => call.enqueuedAt)).toEqual([9_996, 9_997, 9_998, 9_999]);
});

test("a call put back goes before those that came later", () => {
  const queue = new CallQueue<Call>();
  const [first, second, third] = [
    waitingCall("caller", 1),
    waitingCall("caller", 2),
    waitingCall("caller", 3),
  ];
  queue.push(second);
  queue.putBack([third, first]);
  expect([queue.shift(), queue.shift(), queue.shift()]).toEqual([first, second, third]);
});
