import { describe, expect, test } from "vitest";
import { runScale } from "../../../web/pages/run/time-spans.ts";
import { span } from "../../../web/parts/format.ts";
import type { RunRecord as Run } from "../../../src/shapes/runs.ts";

const AT = "2026-01-01T00:00:00.";
const ENDED = {
  status: "success",
  attempt: 1,
  createdAt: `${AT}000Z`,
  startedAt: `${AT}100Z`,
  completedAt: `${AT}167Z`,
  containerStartedAt: null,
  queueTimeMs: 100.25,
  runtimeMs: 0.04,
  responseTimeMs: 167.5,
  error: null,
} as unknown as Run;

/** The spans with their lengths, as the page says them. */
function spansOf(run: Run, starts: Parameters<typeof runScale>[3] = []): string[] {
  const { spans } = runScale(run, null, 0, starts);
  return spans.map(({ title, fromMs, toMs }) => `${title} ${span(Math.round((toMs - fromMs) * 100) / 100)}`);
}

describe("the timeline of a run", () => {
  test("a short run is not as long as the way there and back", () => {
    expect(spansOf(ENDED)).toEqual(["Queued 100 ms", "Running 40 µs", "Hand-over 67 ms", "Success 0 ms"]);
  });

  test("the spans follow each other without a gap, from the acceptance to the answer", () => {
    const { fromMs, toMs, spans } = runScale(ENDED, null, 0);
    expect(spans[0]?.fromMs).toBe(fromMs);
    expect(spans.slice(1).map((each) => each.fromMs)).toEqual(spans.slice(0, -1).map((each) => each.toMs));
    expect(spans.at(-1)?.toMs).toBe(toMs);
  });

  test("a cold start is divided into what is known of it, and nothing of that is before the run", () => {
    const cold = { ...ENDED, containerStartedAt: `${AT}090Z` };
    const starts = [
      { phase: "schedule", ms: 500 },
      { phase: "import", ms: 40 },
      { phase: "setup", ms: 20 },
    ] as const;
    expect(spansOf(cold, starts).slice(0, 5)).toEqual([
      "Cold start 90 ms",
      "… machine 30 ms",
      "… import 40 ms",
      "… setup() 20 ms",
      "Queued 10 ms",
    ]);
  });

  test("each failed attempt has its line, and an error that comes again is not said again", () => {
    const error = { code: "app_error", message: "ValueError: no" };
    const attempt = (number: number, from: number, to: number) => ({
      number,
      startedAt: `${AT}${from}Z`,
      completedAt: `${AT}${to}Z`,
      containerId: null,
      runtimeMs: 1.5,
      error,
    });
    const run = {
      ...ENDED,
      status: "failure",
      attempt: 3,
      startedAt: `${AT}500Z`,
      completedAt: `${AT}600Z`,
      runtimeMs: 100,
      attempts: [attempt(1, 100, 200), attempt(2, 300, 400), attempt(3, 500, 600)],
      error: { code: "app_error", message: "KeyError" },
    } as Run;
    const { spans } = runScale(run, null, 0);
    expect(spans.map(({ title, note }) => [title, note])).toEqual([
      ["Queued", undefined],
      ["Attempt 1", "Ran for 1.5 ms. ValueError: no"],
      ["Attempt 2", "Ran for 1.5 ms. The same error"],
      ["Waiting", undefined],
      ["Running", undefined],
      ["Failure", undefined],
    ]);
  });
});

test("a time below a millisecond is not 0", () => {
  expect([0, 0.0004, 0.04, 0.9994, 0.9996, 9.94, 340, 2_400].map(span)).toEqual([
    "0 ms",
    "1 µs",
    "40 µs",
    "999 µs",
    "1 ms",
    "9.9 ms",
    "340 ms",
    "2.4 s",
  ]);
});
