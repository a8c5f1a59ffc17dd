import * as fc from "fast-check";
import { expect, test } from "vitest";
import { lateness, placeOf, type Terms, termsOf, type Wishes } from "../../../src/model/terms.ts";
import { idAt } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const NOW = Date.UTC(2026, 0, 2);
const WISHES: Wishes = {
  priority: 0,
  delay: null,
  ttlMs: null,
  timeoutMs: null,
  maxAttempts: null,
  tags: [],
  concurrencyKey: null,
  fairnessKey: null,
};
const terms = (wishes: Partial<Wishes>, now = NOW): Terms => termsOf({ ...WISHES, ...wishes }, now);

test("limits count from the end of the delay", () => {
  expect(terms({ delay: { ms: 100 }, ttlMs: 10, timeoutMs: 20 })).toMatchObject({
    notBefore: NOW + 100,
    startBy: NOW + 110,
    endBy: NOW + 120,
  });
  const past = terms({ delay: { until: NOW - 5 }, ttlMs: 10 });
  expect(past).toMatchObject({ notBefore: null, startBy: NOW + 10, endBy: null });
});

verifies(["terms.ttl", "terms.timeout"], "a run is late that has not begun, or ended, in its time", () => {
  const both = terms({ ttlMs: 10, timeoutMs: 20 });
  expect(lateness(null, false, Infinity)).toBe(null);
  for (const hasBegun of [false, true]) expect(lateness(both, hasBegun, NOW + 9)).toBe(null);
  expect([lateness(both, false, NOW + 10), lateness(both, true, NOW + 10)]).toEqual(["expired", null]);
  expect(lateness(both, true, NOW + 20)).toBe("timed_out");
  expect(lateness(terms({ timeoutMs: 20 }), false, NOW + 20)).toBe("timed_out");
});

verifies("terms.priority", "places are in the order of times less head starts", () => {
  const run = fc.record({
    at: fc.integer({ min: NOW, max: NOW + 10_000_000 }),
    priority: fc.integer({ min: -3600, max: 3600 }),
    delayMs: fc.integer({ min: 0, max: 5_000_000 }),
  });
  const placed = ({ at, priority, delayMs }: { at: number; priority: number; delayMs: number }) => {
    const id = idAt(at);
    const asked = terms({ priority, delay: { ms: delayMs } }, at);
    const place = placeOf({ id, terms: asked }) ?? Buffer.from(id.replaceAll("-", ""), "hex");
    return { place, time: at + delayMs - priority * 1000 };
  };
  fc.assert(
    fc.property(run, run, (a, b) => {
      const [first, second] = [placed(a), placed(b)];
      if (first.time === second.time) return;
      expect(Math.sign(Buffer.compare(first.place, second.place))).toBe(Math.sign(first.time - second.time));
    }),
  );
  expect(placeOf({ id: idAt(NOW), terms: null })).toBe(null);
  expect(placeOf({ id: idAt(NOW), terms: terms({ tags: ["a"] }) })).toBe(null);
});
