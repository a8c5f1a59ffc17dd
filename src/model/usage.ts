/** What usage can be added up by. A token is a service account's, or a person's. */
export const USAGE_GROUPS = ["day", "app", "token", "tag"] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

/** How much a service account, or a project, may use. Null: no limit. */
export type Quotas = {
  /** In any minute. */
  readonly callsPerMinute: number | null;
  /** In progress at a time. */
  readonly concurrentRuns: number | null;
  /** Of the runs that ended on a day, in UTC. */
  readonly gpuSecondsPerDay: number | null;
};
export type QuotaName = keyof Quotas;

/** The largest limit of each. */
export const MAX_QUOTAS: Readonly<Record<QuotaName, number>> = {
  callsPerMinute: 1_000_000,
  concurrentRuns: 100_000,
  gpuSecondsPerDay: 100_000_000,
};

/** Quotas as they are stored: null for none at all. */
export function packQuotas(quotas: Quotas | null): string | null {
  const isLimit = quotas !== null && Object.values(quotas).some((limit) => limit !== null);
  return isLimit ? JSON.stringify(quotas) : null;
}

export function readQuotas(stored: string | null): Quotas | null {
  return stored === null ? null : (JSON.parse(stored) as Quotas);
}

/** Quotas as a line of text. */
export function quotaText(quotas: Quotas | null): string {
  const { callsPerMinute = null, concurrentRuns = null, gpuSecondsPerDay = null } = quotas ?? {};
  const limits = [
    callsPerMinute === null ? null : `${callsPerMinute} calls/min`,
    concurrentRuns === null ? null : `${concurrentRuns} at a time`,
    gpuSecondsPerDay === null ? null : `${gpuSecondsPerDay} GPU s/day`,
  ].filter((limit) => limit !== null);
  return limits.length === 0 ? "none" : limits.join(", ");
}
