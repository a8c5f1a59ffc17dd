import { expect } from "vitest";
import { createLog } from "../../../../src/kit/log.ts";
import { type SamplerName, samplingOf } from "../../../../src/model/sampling.ts";
import { newSpanId, newTraceId } from "../../../../src/model/trace.ts";
import { SpanQueue } from "../../../../src/runs/traces/span-queue.ts";
import { Tracer } from "../../../../src/runs/traces/tracer.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

const CALLER = { traceId: newTraceId(), parentId: newSpanId() };
const parent = (flags: string): string => `00-${CALLER.traceId}-${CALLER.parentId}-${flags}`;

function recording(sampler: SamplerName, ratio = 1): Tracer {
  const clock = new HandClock();
  const exporter = { export: async () => {}, close: async () => {} };
  const limits = { maxWaiting: 10, batchSize: 10, delayMs: 1_000 };
  const spans = new SpanQueue({ ...limits, exporter, clock, log: createLog("silent") });
  return new Tracer({ sampling: samplingOf(sampler, ratio), spans, clock });
}

verifies("traces.token", "without a token, the caller's flag counts as not set, and the ids are kept", () => {
  const passing = new Tracer(null);
  const kept = { ...CALLER, spanId: null, state: "a=1" };
  expect(passing.begin(parent("01"), "a=1", true)).toEqual({ ...kept, isSampled: true });
  expect(passing.begin(parent("01"), "a=1", false)).toEqual({ ...kept, isSampled: false });
  expect(passing.begin(parent("00"), "a=1", true)).toEqual({ ...kept, isSampled: false });
  expect(passing.begin(null, null, true)).toBeNull();
  expect(passing.begin("bad", "a=1", true)).toBeNull();
  expect(passing.fire()).toBeNull();

  const never = recording("parentbased_always_off");
  expect(never.begin(parent("01"), null, true)).toMatchObject({ ...CALLER, isSampled: true });
  expect(never.begin(parent("01"), null, true)?.spanId).toMatch(/^[0-9a-f]{16}$/);
  expect(never.begin(parent("01"), null, false)).toEqual({
    ...CALLER,
    spanId: null,
    isSampled: false,
    state: null,
  });
});

verifies("traces.token", "a trace id that a ratio always takes helps only a caller with a token", () => {
  const few = recording("traceidratio", 1e-9);
  const highest = `00-${"f".repeat(32)}-${CALLER.parentId}-01`;
  expect(few.begin(highest, null, true)?.isSampled).toBe(true);
  expect(few.begin(highest, null, false)?.isSampled).toBe(false);
});

verifies("traces.sampling", "a call without a trace begins one, if that is sampled", () => {
  const all = recording("parentbased_always_on");
  const root = all.begin(null, null, false);
  expect(root).toMatchObject({ parentId: null, isSampled: true, isRandom: true, state: null });
  expect(all.begin(parent("03"), null, true)).toMatchObject({ ...CALLER, isRandom: true });
  expect(all.begin(parent("01"), null, true)).not.toHaveProperty("isRandom");
  expect(all.begin("bad", "a=1", true)).toMatchObject({ parentId: null, state: null });
  expect(all.fire()).toMatchObject({ parentId: null, isFired: true });
  expect(recording("parentbased_always_off").begin(null, null, true)).toBeNull();
  expect(recording("always_off").begin(parent("01"), null, true)).toMatchObject({
    spanId: null,
    isSampled: false,
  });
});
