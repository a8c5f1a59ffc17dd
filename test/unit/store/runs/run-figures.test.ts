import { expect, test } from "vitest";
import { countSlices } from "../../../../src/store/runs/run-figures.ts";

const DAY_MS = 86_400_000;

/** Counts given times as a database would, with a note of how many were read. */
function counter(times: readonly number[]) {
  const reads: number[] = [];
  const count = async ([fromMs, toMs]: readonly [number, number], limit: number) => {
    const found = times.filter((at) => at >= fromMs && at < toMs).slice(0, limit).length;
    reads.push(found);
    return found === 0 ? [] : [{ count: found }];
  };
  return { reads, count };
}

const sum = (groups: readonly { readonly count: number }[]): number =>
  groups.reduce((total, { count }) => total + count, 0);

test("few rows over a week are all counted, in a few reads", async () => {
  const times = Array.from({ length: 900 }, (_, i) => i * 600_000);
  const { reads, count } = counter(times);
  const { groups, sinceMs } = await countSlices({ fromMs: 0, toMs: 7 * DAY_MS, maxRuns: 1_000 }, count);
  expect([sum(groups), sinceMs]).toEqual([900, 0]);
  expect(reads.length).toBeLessThan(12);
});

test("of too many the newest are counted, whole from the time that is said on", async () => {
  const times = Array.from({ length: 50_000 }, (_, i) => DAY_MS - i * 1_000);
  const { reads, count } = counter(times);
  const { groups, sinceMs } = await countSlices({ fromMs: 0, toMs: DAY_MS + 1, maxRuns: 10_000 }, count);
  expect(sinceMs).toBeGreaterThan(0);
  expect(sum(groups)).toBe(times.filter((at) => at >= sinceMs).length);
  expect(sum(groups)).toBeGreaterThan(5_000);
  expect(sum(groups)).toBeLessThanOrEqual(10_000);
  expect(sum(reads.map((read) => ({ count: read })))).toBeLessThan(3 * 10_000);
});

test("a burst long ago does not hide what came after it", async () => {
  const burst = Array.from({ length: 20_000 }, (_, i) => DAY_MS + i);
  const recent = [6 * DAY_MS, 6 * DAY_MS + 1];
  const { count } = counter([...burst, ...recent]);
  const { groups, sinceMs } = await countSlices({ fromMs: 0, toMs: 7 * DAY_MS, maxRuns: 1_000 }, count);
  expect(sum(groups)).toBe(2);
  expect(sinceMs).toBeLessThanOrEqual(6 * DAY_MS);
  expect(sinceMs).toBeGreaterThan(DAY_MS);
});

test("of a newest second with more than may be read, as much as may be read is counted", async () => {
  const { count } = counter(Array<number>(5_000).fill(DAY_MS - 1));
  const { groups, sinceMs } = await countSlices({ fromMs: 0, toMs: DAY_MS, maxRuns: 1_000 }, count);
  expect([sum(groups), sinceMs]).toEqual([1_001, DAY_MS]);
});
