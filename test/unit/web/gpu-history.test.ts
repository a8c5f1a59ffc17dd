import { expect, test } from "vitest";
import type { ContainerRecord } from "../../../src/shapes/apps.ts";
import { gpusOf, gpuSteps, type GpuReading, withReading } from "../../../web/api/gpu-history.ts";

const MINUTE_MS = 60_000;

/** A replica with a share of a GPU. */
function replica(uuid: string, memoryBytes: number | null, usedBytes: number | null = null): ContainerRecord {
  const gpus = [{ uuid, model: "H100", memoryBytes, totalBytes: 80e9, usedBytes }];
  return { gpus } as unknown as ContainerRecord;
}

test("the GPUs of replicas are listed once, with what all of them were granted", () => {
  const replicas = [replica("a", 20e9), replica("b", null), replica("a", 30e9), replica("b", 10e9)];
  expect(gpusOf(replicas).map(({ uuid, grantedBytes }) => [uuid, grantedBytes])).toEqual([
    ["a", 50e9],
    ["b", null],
  ]);
});

test("what is seen over a long time is kept for a quarter of an hour", () => {
  let readings: GpuReading[] = [];
  for (let look = 0; look < 2_000; look++)
    readings = withReading(readings, [replica("a", null, look)], look * 5_000);
  expect(readings.length).toBeLessThan(200);
  expect(readings.at(-1)).toEqual({ atMs: 1_999 * 5_000, used: { a: 1_999 } });
});

test("each step has the most that was in use, and none where nothing was seen or is known", () => {
  const nowMs = 100 * MINUTE_MS;
  let readings: GpuReading[] = [];
  for (const [atMs, used] of [
    [nowMs - 10 * MINUTE_MS, 5],
    [nowMs - 10 * MINUTE_MS + 5_000, 9],
    [nowMs - 5_000, null],
    [nowMs, 7],
  ] as const)
    readings = withReading(readings, [replica("a", null, used)], atMs);
  const { axis, values } = gpuSteps(readings, ["a", "b"], nowMs);
  expect(axis.fromMs + axis.steps * axis.stepMs).toBeGreaterThan(nowMs);
  expect(values.map(({ a }) => a).filter((used) => used !== null)).toEqual([9, 7]);
  expect(values.at(-1)).toEqual({ a: 7, b: null });
});
