import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { PROJECT_USAGE } from "../../src/shapes/usage.ts";
import { ask, askText } from "./http.ts";

export type { ProjectUsage, UsageRecord } from "../../src/shapes/usage.ts";

/** The days one can look back, today included. */
export const USAGE_DAYS = [7, 30, 90, 400] as const;
export type UsageDays = (typeof USAGE_DAYS)[number];
export const DEFAULT_DAYS = 30 satisfies UsageDays;

/** What the table of the page is by. */
export const USAGE_TABLES = ["app", "token", "tag"] as const;
export type UsageTable = (typeof USAGE_TABLES)[number];

type UsageSearch = { readonly days?: UsageDays; readonly by?: UsageTable };

/** What an address asks for; defaults need not be named. */
export function readUsageSearch({ days, by }: Record<string, unknown>): UsageSearch {
  const known = USAGE_DAYS.find((each) => each === days && each !== DEFAULT_DAYS);
  const table = USAGE_TABLES.find((each) => each === by && each !== "app");
  return { ...(known && { days: known }), ...(table && { by: table }) };
}

const DAY_MS = 86_400_000;

/** The first and the last day, in UTC. */
export function daysUntilNow(days: UsageDays): { readonly from: string; readonly to: string } {
  const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, "2026-01-01".length);
  const now = Date.now();
  return { from: dateOf(now - (days - 1) * DAY_MS), to: dateOf(now) };
}

/** A project's usage; while other days are on their way the last ones stay. */
export function usageQuery(projectId: string, days: UsageDays, groupBy: "day" | UsageTable) {
  return queryOptions({
    queryKey: ["usage", projectId, groupBy, days],
    queryFn: ({ signal }) =>
      ask(PROJECT_USAGE, `/v2/projects/${projectId}/usage`, {
        query: { ...daysUntilNow(days), groupBy },
        signal,
      }),
    refetchInterval: 30_000,
    placeholderData: (last, query) =>
      query?.queryKey[1] === projectId && query.queryKey[2] === groupBy ? keepPreviousData(last) : undefined,
  });
}

/** The same as CSV, day by day. */
export async function usageCsv(projectId: string, days: UsageDays, by: UsageTable): Promise<string> {
  const query = { ...daysUntilNow(days), groupBy: `day,${by}`, format: "csv" };
  return await askText(`/v2/projects/${projectId}/usage`, { query });
}
