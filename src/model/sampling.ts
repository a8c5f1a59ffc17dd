import type { TraceContext } from "./trace.ts";

/** `OTEL_TRACES_SAMPLER`: which traces are recorded. */
export const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

export type Sampling = {
  /** Whether the caller's decision counts, where there is one. */
  readonly isParentBased: boolean;
  /** How many of the other traces are recorded, from 0 to 1. */
  readonly ratio: number;
};

export function samplingOf(name: SamplerName, ratio: number): Sampling {
  const isParentBased = name.startsWith("parentbased_");
  if (name.endsWith("always_on")) return { isParentBased, ratio: 1 };
  return { isParentBased, ratio: name.endsWith("always_off") ? 0 : ratio };
}

/** The end of a trace id is random: its last 13 digits, as a fraction of all that there are. */
const DIGITS = 13;
const ALL = 16 ** DIGITS;

/**
 * Whether a trace is recorded. Services with the same ratio that decide by the trace's id decide alike. `context`: that of a
 * caller with a valid token; anyone could make up a trace id that is always recorded, so others are sampled by chance.
 */
export function isSampled({ isParentBased, ratio }: Sampling, context: TraceContext | null): boolean {
  if (isParentBased && context) return context.isSampled;
  if (ratio >= 1 || ratio <= 0) return ratio >= 1;
  const fraction = context ? Number.parseInt(context.traceId.slice(-DIGITS), 16) / ALL : Math.random();
  return fraction >= 1 - ratio;
}
