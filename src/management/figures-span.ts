import { z } from "zod";
import type { SpanRecord } from "../shapes/figures.ts";
import { timestamp } from "../shapes/timestamp.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** A little more than records are kept. */
const MAX_SPAN_MS = 31 * DAY_MS;
const DEFAULT_SPAN_MS = HOUR_MS;

/** What people find round. */
const STEPS_MS = [
  ...[1, 2, 5, 10, 15, 20, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_MS),
  ...[1, 2].map((days) => days * DAY_MS),
];

const TIME = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));

/** The span of time that figures are asked for: the last hour unless it is said, 31 days at most. */
export const RANGE = z
  .object({ from: TIME.optional(), to: TIME.optional() })
  .refine(({ from, to }) => from === undefined || from < (to ?? Number.MAX_VALUE), {
    path: ["from"],
    error: "is not before to",
  });

/** A span in whole steps, at most about so many; the last one may not be over yet. */
export function spanOf(
  { from, to }: z.output<typeof RANGE>,
  nowMs: number,
  maxSteps: number,
): {
  readonly span: { readonly fromMs: number; readonly toMs: number; readonly stepMs: number };
  readonly record: SpanRecord;
} {
  const endMs = to ?? nowMs;
  // Whoever asks may have a clock that is ahead of ours.
  const wantedMs = Math.min(from ?? endMs - DEFAULT_SPAN_MS, endMs - MINUTE_MS);
  const startMs = Math.max(wantedMs, endMs - MAX_SPAN_MS);
  // A span that is meant to be round is a little longer by the time it is asked for.
  const stepMs = STEPS_MS.find((ms) => (endMs - startMs) / ms < maxSteps + 1) ?? 2 * DAY_MS;
  const fromMs = Math.floor(startMs / stepMs) * stepMs;
  const toMs = Math.ceil(endMs / stepMs) * stepMs;
  return {
    span: { fromMs, toMs, stepMs },
    record: { from: timestamp(fromMs), to: timestamp(toMs), stepMs },
  };
}
