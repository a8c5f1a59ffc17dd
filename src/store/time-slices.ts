/** A span of time, in epoch milliseconds; its end is no part of it. */
export type Slice = readonly [fromMs: number, toMs: number];

/** What was counted; before `sinceMs` something is left out. */
export type Counted<Group> = { readonly groups: readonly Group[]; readonly sinceMs: number };

const FIRST_MS = 60_000;
const LEAST_MS = 1_000;
const GROWTH = 4;
/** Each costs as much as the whole may cost. */
const MAX_OVERFLOWS = 2;

/**
 * Counts from the newest back, in slices whose length follows from how much the ones before held, until the whole is
 * counted or as many rows were looked at as may be. Keys are in order of time within each app only: one statement
 * over many apps could not stop at the newest.
 */
export async function countSlices<Group extends { readonly count: number }>(
  whole: { readonly fromMs: number; readonly toMs: number; readonly maxRuns: number },
  count: (slice: Slice, limit: number) => Promise<readonly Group[]>,
): Promise<Counted<Group>> {
  const { fromMs, toMs, maxRuns } = whole;
  const groups: Group[] = [];
  let sinceMs = toMs;
  let left = maxRuns;
  let sliceMs = FIRST_MS;
  let overflows = 0;
  while (sinceMs > fromMs && overflows < MAX_OVERFLOWS) {
    const startMs = Math.max(fromMs, sinceMs - sliceMs);
    const found = await count([startMs, sinceMs], left + 1);
    const seen = found.reduce((sum, group) => sum + group.count, 0);
    if (seen > left) {
      overflows += 1;
      sliceMs = (sinceMs - startMs) / GROWTH ** 2;
      // Of a minute with more than all that may be read, something is better than nothing.
      if (sinceMs === toMs && overflows === MAX_OVERFLOWS) groups.push(...found);
      continue;
    }
    groups.push(...found);
    left -= seen;
    // Half of what may still be read, if it goes on like this.
    const fittingMs = seen === 0 ? Number.POSITIVE_INFINITY : ((sinceMs - startMs) * left) / seen / 2;
    sliceMs = Math.max(LEAST_MS, Math.min(sliceMs * GROWTH, fittingMs));
    sinceMs = startMs;
  }
  return { groups, sinceMs };
}
