import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { idOf } from "./apps.ts";
import { ask } from "./http.ts";

export const RUN_STATES = ["queued", "running", "success", "failure", "cancelled"] as const;
export type RunState = (typeof RUN_STATES)[number];

/** What became of some runs. Response times are those that 50, 95 and 99 in a hundred did not exceed. */
export type RunFigures = Readonly<Record<RunState, number>> & {
  readonly coldRuns: number;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
};

export type Step = RunFigures & { readonly at: string };

export type Failure = {
  readonly id: string;
  readonly appId: string;
  readonly functionName: string;
  readonly createdAt: string;
  readonly error: { readonly code: string; readonly message: string } | null;
};

/** What runs did over a time, and how things are now. */
export type Figures = {
  readonly from: string;
  readonly to: string;
  readonly stepMs: number;
  readonly steps: readonly Step[];
  readonly total: RunFigures & { readonly runs: number; readonly errorRate: number | null };
  readonly now: {
    readonly queueAgeMs: number;
    readonly waiting: number;
    readonly running: number;
    readonly replicas: Replicas;
    readonly coldStarts: number;
    /** What the app serves; null of a whole project. */
    readonly version: { readonly number: number; readonly buildId: string } | null;
  };
  readonly lastFailures: readonly Failure[];
  /** There were too many runs to look at: only those since `completeSince` are counted. */
  readonly isPartial: boolean;
  readonly completeSince: string;
};

export type Replicas = { readonly starting: number; readonly ready: number; readonly draining: number };

/** How much an app was called, step by step; without any call the lists are empty. */
export type AppTraffic = {
  readonly appId: string;
  readonly version: number | null;
  readonly replicas: Replicas;
  readonly runs: readonly number[];
  readonly failures: readonly number[];
};
export type Traffic = {
  readonly from: string;
  readonly to: string;
  readonly stepMs: number;
  readonly items: readonly AppTraffic[];
};

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The times one can look back, and how often what they show is asked for again. */
export const RANGES = {
  "15m": { title: "15 min", ms: 15 * MINUTE_MS, refreshMs: 5_000 },
  "1h": { title: "1 h", ms: HOUR_MS, refreshMs: 5_000 },
  "6h": { title: "6 h", ms: 6 * HOUR_MS, refreshMs: 5_000 },
  "24h": { title: "24 h", ms: 24 * HOUR_MS, refreshMs: 10_000 },
  "7d": { title: "7 days", ms: 168 * HOUR_MS, refreshMs: 30_000 },
} as const;
export type RangeName = keyof typeof RANGES;

export const DEFAULT_RANGE = "1h" satisfies RangeName;

/** The range that an address names; the default one need not be named. */
export function readRange({ range }: Record<string, unknown>): { range?: RangeName } {
  const isRange = typeof range === "string" && Object.hasOwn(RANGES, range) && range !== DEFAULT_RANGE;
  return isRange ? { range: range as RangeName } : {};
}

/** Figures up to now, of a project or of one of its apps; while another range is on its way the last one stays. */
export function figuresQuery(projectId: string, range: RangeName, appName?: string) {
  const { ms, refreshMs } = RANGES[range];
  return queryOptions({
    queryKey: ["figures", projectId, appName ?? null, range],
    queryFn: ({ signal }) =>
      ask<Figures>(`/v2/projects/${projectId}/figures`, {
        query: { from: ago(ms), app_id: appName && idOf(projectId, appName) },
        signal,
      }),
    refetchInterval: refreshMs,
    placeholderData: (last, query) => (query?.queryKey[1] === projectId ? keepPreviousData(last) : undefined),
  });
}

/** Every app's last day, its version and its replicas: what a list of them shows besides its state. */
export function trafficQuery(projectId: string) {
  return queryOptions({
    queryKey: ["traffic", projectId],
    queryFn: ({ signal }) =>
      ask<Traffic>(`/v2/projects/${projectId}/traffic`, { query: { from: ago(24 * HOUR_MS) }, signal }),
    refetchInterval: 5_000,
  });
}

function ago(ms: number): string {
  return new Date(Date.now() - ms).toISOString();
}
