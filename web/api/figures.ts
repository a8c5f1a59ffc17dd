import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { FIGURES, TRAFFIC } from "../../src/shapes/figures.ts";
import { idOf } from "./apps.ts";
import { ask } from "./http.ts";

export type {
  AppTraffic,
  FailureRecord as Failure,
  FiguresRecord as Figures,
  ReplicaCounts as Replicas,
} from "../../src/shapes/figures.ts";

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
      ask(FIGURES, `/v2/projects/${projectId}/figures`, {
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
      ask(TRAFFIC, `/v2/projects/${projectId}/traffic`, { query: { from: ago(24 * HOUR_MS) }, signal }),
    refetchInterval: 10_000,
  });
}

function ago(ms: number): string {
  return new Date(Date.now() - ms).toISOString();
}
