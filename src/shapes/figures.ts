import * as z from "zod/mini";
import { FAULT, TIMESTAMP } from "./common.ts";

const COUNT = z.int().check(z.gte(0));
const MS = z.number().check(z.gte(0));

/** The span that was counted, in whole steps. */
const SPAN = z.object({ from: TIMESTAMP, to: TIMESTAMP, stepMs: z.int() });

/** Runs by state, with percentiles of their response times. */
const RUNS = z.object({
  queued: COUNT,
  running: COUNT,
  success: COUNT,
  failure: COUNT,
  cancelled: COUNT,
  /** Failures that their callers caused: those with a status from 400 to 499. */
  callerErrors: COUNT,
  coldRuns: COUNT,
  p50Ms: z.nullable(MS),
  p95Ms: z.nullable(MS),
  p99Ms: z.nullable(MS),
});

const REPLICAS = z.object({ starting: COUNT, ready: COUNT, draining: COUNT });
export type ReplicaCounts = z.infer<typeof REPLICAS>;

const FAILURE = z.object({
  id: z.uuid(),
  appId: z.string(),
  functionName: z.string(),
  createdAt: TIMESTAMP,
  error: z.nullable(FAULT),
});
export type FailureRecord = z.infer<typeof FAILURE>;

const VERSION = z.object({ number: z.int(), buildId: z.string() });

/** Statistics of runs over time, and the current state. */
export const FIGURES = z.extend(SPAN, {
  steps: z.array(z.extend(RUNS, { at: TIMESTAMP })),
  total: z.extend(RUNS, { runs: COUNT, errorRate: z.nullable(z.number().check(z.gte(0), z.lte(1))) }),
  now: z.object({
    queueAgeMs: MS,
    waiting: COUNT,
    running: COUNT,
    replicas: REPLICAS,
    coldStarts: COUNT,
    /** The version that the app serves; null for a project. */
    version: z.nullable(VERSION),
  }),
  lastFailures: z.array(FAILURE),
  /** There were too many runs: only those since `completeSince` are counted. */
  isPartial: z.boolean(),
  completeSince: TIMESTAMP,
});
export type FiguresRecord = z.infer<typeof FIGURES>;

const TRAFFIC_OF_APP = z.object({
  appId: z.string(),
  version: z.nullable(z.int()),
  replicas: REPLICAS,
  runs: z.array(COUNT),
  /** Without those that callers caused. */
  failures: z.array(COUNT),
  callerErrors: COUNT,
  errorRate: z.nullable(z.number().check(z.gte(0), z.lte(1))),
  p50Ms: z.nullable(MS),
  p95Ms: z.nullable(MS),
});
/** An app's calls, step by step and in all; the lists are empty if there were none. */
export type AppTraffic = z.infer<typeof TRAFFIC_OF_APP>;

export const TRAFFIC = z.extend(SPAN, { items: z.array(TRAFFIC_OF_APP) });
