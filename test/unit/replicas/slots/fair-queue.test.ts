import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { Fairness } from "../../../../src/model/queue-limits.ts";
import { FairQueue } from "../../../../src/replicas/slots/fair-queue.ts";
import { verifies } from "../../../verifies.ts";

type Waiter = { readonly name: string; readonly enqueuedAt: number; readonly fairness: Fairness | null };

let clock = 0;

function waiter(key: string | null, weight = 1): Waiter {
  clock += 1;
  return { name: `${key}`, enqueuedAt: clock, fairness: key === null ? null : { key, weight } };
}

/** A queue in which so many calls of each key wait, the first key's first. */
function queueOf(counts: Readonly<Record<string, number | readonly [count: number, weight: number]>>) {
  const queue = new FairQueue<Waiter>();
  for (const [key, given] of Object.entries(counts)) {
    const [count, weight] = typeof given === "number" ? [given, 1] : given;
    for (let n = 0; n < count; n++) queue.push(waiter(key, weight));
  }
  return queue;
}

function take(queue: FairQueue<Waiter>, count = queue.size): string {
  return Array.from({ length: count }, () => queue.shift()?.name).join("");
}

verifies(
  "fair.sync-turns",
  "one caller's 1,000 waiting calls delay another's single call by one turn",
  () => {
    const queue = queueOf({ a: 1_000, b: 1 });
    expect(take(queue, 3)).toBe("aba");
  },
);

test("callers take turns, each with its calls in order", () => {
  expect(take(queueOf({ a: 4, b: 2, c: 3 }))).toBe("abcabcaca");
});

verifies("fair.weight", "a caller has as many turns as its weight says, spread over the others'", () => {
  const queue = queueOf({ a: [60, 3], b: [20, 1] });
  const order = take(queue);
  for (let at = 0; at < order.length; at += 8) {
    // At most one turn off at either end.
    const turns = [...order.slice(at, at + 8).matchAll(/a/g)].length;
    expect(Math.abs(turns - 6)).toBeLessThanOrEqual(1);
  }
  expect(order).not.toContain("aaaaa");
  expect(order).not.toContain("bb");
});

test("calls without a key have a line of their own", () => {
  const queue = queueOf({ a: 2 });
  for (let n = 0; n < 2; n++) queue.push(waiter(null));
  expect(take(queue)).toBe("anullanull");
});

test("who always has a single call waiting gets no more turns than one who has many", () => {
  const queue = queueOf({ a: 20, b: 1 });
  let order = "";
  for (let n = 0; n < 20; n++) {
    const name = take(queue, 1);
    order += name;
    if (name === "b") queue.push(waiter("b"));
  }
  expect(order).toBe("ab".repeat(10));
});

test("a single key is a plain queue, also after others have come and gone", () => {
  const queue = queueOf({ a: 3, b: 1 });
  expect(take(queue, 3)).toBe("aba");
  const { name } = queue.peek()!;
  expect(name).toBe("a");
  expect(take(queue)).toBe("a");
  queue.push(waiter("b"));
  queue.push(waiter("b"));
  expect([take(queue), queue.shift(), queue.peek()]).toEqual(["bb", undefined, undefined]);
});

test("a call that came back has its turn again, before those that came later", () => {
  const queue = queueOf({ a: 3, b: 3 });
  const [first, second] = [queue.shift()!, queue.shift()!];
  queue.putBack([first, second]);
  expect([queue.shift(), queue.shift()]).toEqual([first, second]);
  expect(take(queue)).toBe("abab");
});

verifies("fair.full-queue", "when no more may wait, the longest line gives way", () => {
  const queue = queueOf({ a: 3, b: 1 });
  expect(queue.yieldingTo(waiter("b"))?.name).toBe("a");
  expect(queue.yieldingTo(waiter("c"))?.name).toBe("a");
  // The last one of the line.
  const last = waiter("a");
  queue.push(last);
  expect(queue.yieldingTo(waiter("c"))).toBe(last);
  queue.remove(last);
  // Its own line is the longest, or would be as long.
  expect(queue.yieldingTo(waiter("a"))).toBeUndefined();
  expect(queueOf({ a: 2, b: 1 }).yieldingTo(waiter("b"))).toBeUndefined();
  // By weight: six calls of weight 3 are no more than two of weight 1.
  expect(queueOf({ a: [6, 3] }).yieldingTo(waiter("b"))?.name).toBe("a");
  expect(queueOf({ a: [3, 3] }).yieldingTo(waiter("b"))).toBeUndefined();
});

const key = fc.nat(5);
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant("push" as const), key }) },
  { weight: 4, arbitrary: fc.record({ act: fc.constant("shift" as const) }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("shiftFirst" as const), key }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("remove" as const), pick: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("putBack" as const), count: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("takeAll" as const), pick: fc.nat(20) }) },
);

/** By key. */
const WEIGHTS = [1, 1, 2, 5, 100, 1];

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** What the queue should hold, in order of arrival, and what was taken from it. */
type Model = { waiting: Waiter[]; readonly handed: Waiter[] };

/** Notes what the queue gave; returns what it may have been: the first call of a line. */
function handed(call: Waiter | undefined, among: readonly Waiter[], model: Model): [unknown, unknown] {
  if (!call) return [undefined, among[0]];
  const first = among.find(({ name }) => name === call.name);
  model.waiting = model.waiting.filter((other) => other !== call);
  model.handed.push(call);
  return [call, first];
}

/** Does a step on the queue and on the model; gives what each answered. */
function doBoth(each: Step, queue: FairQueue<Waiter>, model: Model): [unknown, unknown] {
  switch (each.act) {
    case "push": {
      const call = waiter(String(each.key), WEIGHTS[each.key]);
      model.waiting.push(call);
      return [queue.push(call), undefined];
    }
    case "shift":
      return handed(queue.shift(), model.waiting, model);
    case "shiftFirst": {
      const mayLeave = ({ name }: Waiter): boolean => name === String(each.key);
      return handed(queue.shiftFirst(mayLeave), model.waiting.filter(mayLeave), model);
    }
    case "remove": {
      const { waiting } = model;
      const call = waiting[each.pick % Math.max(1, waiting.length)] ?? model.handed[0] ?? waiter("0");
      model.waiting = waiting.filter((other) => other !== call);
      return [queue.remove(call), waiting.includes(call)];
    }
    case "putBack": {
      const back = model.handed.splice(Math.max(0, model.handed.length - each.count));
      model.waiting = [...back, ...model.waiting].toSorted((a, b) => a.enqueuedAt - b.enqueuedAt);
      return [queue.putBack(back), undefined];
    }
    case "takeAll": {
      if (each.pick > 0) return [undefined, undefined];
      const { waiting } = model;
      model.waiting = [];
      return [queue.takeAll(), waiting];
    }
    default:
      return each satisfies never;
  }
}

test("whatever happens, nothing is lost, each key's calls leave in order, and the oldest is known", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const queue = new FairQueue<Waiter>();
      const model: Model = { waiting: [], handed: [] };
      for (const each of steps) {
        const [answer, expected] = doBoth(each, queue, model);
        expect(answer).toEqual(expected);
        expect(queue.size).toBe(model.waiting.length);
        expect(queue.peek()).toBe(model.waiting[0]);
      }
    }),
    { numRuns: 300 },
  );
});

verifies(
  "fair.no-starvation",
  "between two turns of a caller that waits, another one has at most its share and one more",
  () => {
    const weight = fc.constantFrom(1, 2, 3, 10, 100);
    const act = fc.oneof(
      { weight: 2, arbitrary: fc.record({ key, push: fc.constant(true) }) },
      { weight: 3, arbitrary: fc.record({ key, push: fc.constant(false) }) },
    );
    fc.assert(
      fc.property(
        fc.array(weight, { minLength: 6, maxLength: 6 }),
        fc.array(act, { maxLength: 300 }),
        (weights, acts) => {
          const queue = new FairQueue<Waiter>();
          // The first one always waits.
          for (let n = 0; n < 400; n++) queue.push(waiter("0", weights[0]));
          let turns = new Map<string, number>();
          for (const each of acts) {
            if (each.push) queue.push(waiter(String(each.key), weights[each.key]));
            else {
              const { name } = queue.shift()!;
              turns.set(name, (turns.get(name) ?? 0) + 1);
              if (name === "0") turns = new Map();
              for (const [other, count] of turns)
                expect(count).toBeLessThanOrEqual(Math.ceil(weights[Number(other)]! / weights[0]!) + 1);
            }
          }
        },
      ),
    );
  },
);

test("a hundred thousand keys come and go, and leave nothing behind", () => {
  const queue = new FairQueue<Waiter>();
  for (let n = 0; n < 100_000; n++) {
    queue.push(waiter(`key ${n}`));
    if (n >= 10) queue.shift();
  }
  expect(queue.size).toBe(10);
  expect(queue.takeAll()).toHaveLength(10);
});

test("a caller whose first calls are cancelled again and again has no more turns than others", () => {
  const queue = queueOf({ a: 0, b: 3 });
  const places = Array.from({ length: 20 }, () => waiter("a"));
  for (const place of places) queue.push(place);
  let order = "";
  for (let n = 0; n < 6; n++) {
    queue.replace(places.at(-1)!);
    order += take(queue, 1);
  }
  expect(order.split("").filter((name) => name === "b")).toHaveLength(3);
});

test("a place of which something is left has had its turn", () => {
  const queue = queueOf({ b: 3 });
  const place = waiter("a");
  queue.push(place);
  let order = "";
  for (let n = 0; n < 6; n++) {
    const next = queue.shift()!;
    order += next.name;
    if (next === place) queue.putRest(place);
  }
  expect(order.split("").filter((name) => name === "b")).toHaveLength(3);
  expect(queue.size).toBe(1);
});
