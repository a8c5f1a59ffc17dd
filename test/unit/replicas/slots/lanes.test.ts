import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Call } from "../../../../src/replicas/call.ts";
import type { Lane } from "../../../../src/replicas/slots/slot-call.ts";
import { Lanes } from "../../../../src/replicas/slots/lanes.ts";

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
