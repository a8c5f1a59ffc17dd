import { expect, test } from "vitest";
import { isSampled, SAMPLERS, samplingOf } from "../../../src/model/sampling.ts";
import { newTraceId } from "../../../src/model/trace.ts";

const context = (isTaken: boolean, traceId = newTraceId()) => ({
  traceId,
  parentId: "1".repeat(16),
  isSampled: isTaken,
  state: null,
});

test("each sampler decides as the standard says", () => {
  const decide = (name: (typeof SAMPLERS)[number], parent: boolean | null) =>
    isSampled(samplingOf(name, 0), parent === null ? null : context(parent));
  expect(SAMPLERS.map((name) => [name, decide(name, null), decide(name, true), decide(name, false)])).toEqual(
    [
      ["always_on", true, true, true],
      ["always_off", false, false, false],
      ["traceidratio", false, false, false],
      ["parentbased_always_on", true, true, false],
      ["parentbased_always_off", false, true, false],
      ["parentbased_traceidratio", false, true, false],
    ],
  );
});

test("a ratio takes that part of all traces, and the same ones everywhere", () => {
  const some = samplingOf("traceidratio", 0.25);
  const more = samplingOf("traceidratio", 0.5);
  let taken = 0;
  for (let i = 0; i < 4_000; i++) {
    const each = context(false);
    const isTaken = isSampled(some, each);
    expect(isSampled(some, each)).toBe(isTaken);
    expect(isTaken && !isSampled(more, each)).toBe(false);
    taken += Number(isTaken);
  }
  // Ten standard deviations.
  expect(Math.abs(taken - 1_000)).toBeLessThan(280);
});

test("the highest trace ids are the ones that a small ratio takes", () => {
  const some = samplingOf("traceidratio", 0.01);
  expect(isSampled(some, context(false, "f".repeat(32)))).toBe(true);
  expect(isSampled(some, context(false, "0".repeat(31) + "1"))).toBe(false);
});
