import { expect, test } from "vitest";
import type { ContainerRecord } from "../../../src/shapes/apps.ts";
import { type AppGpus, appSteps, gpusOf } from "../../../web/api/gpu-history.ts";

/** A replica with a share of a GPU. */
function replica(uuid: string, memoryBytes: number | null, ownUsedBytes: number | null): ContainerRecord {
  const gpus = [{ uuid, model: "H100", memoryBytes, totalBytes: 80e9, usedBytes: 50e9, ownUsedBytes }];
  return { gpus } as unknown as ContainerRecord;
}

test("the GPUs of replicas are listed once, with what all of them were granted and use", () => {
  const replicas = [
    replica("a", 20e9, 5e9),
    replica("b", null, 1e9),
    replica("a", 30e9, 6e9),
    replica("b", 10e9, null),
  ];
  const listed = gpusOf(replicas).map(({ uuid, grantedBytes, ownUsedBytes }) => [
    uuid,
    grantedBytes,
    ownUsedBytes,
  ]);
  expect(listed).toEqual([
    ["a", 50e9, 11e9],
    ["b", null, null],
  ]);
});

test("the steps of an hour have each GPU that is drawn, and what the app used of all of them", () => {
  const gpu = (uuid: string, usedBytes: (number | null)[], ownUsedBytes: (number | null)[]) => {
    return { uuid, model: "H100", totalBytes: 80e9, usedBytes, ownUsedBytes };
  };
  const hour: AppGpus = {
    from: "2026-01-15T12:00:00.000Z",
    stepMs: 10_000,
    gpus: [gpu("a", [null, 5, 9, 0], [null, 2, null, 0]), gpu("b", [null, null, 7, 0], [null, null, 3, 0])],
  };
  const { axis, values } = appSteps(hour, ["a"]);
  expect(axis).toEqual({ fromMs: Date.UTC(2026, 0, 15, 12), stepMs: 10_000, steps: 4 });
  expect(values).toEqual([
    { a: null, own: null },
    { a: 5, own: 2 },
    { a: 9, own: 3 },
    { a: 0, own: 0 },
  ]);
  expect(appSteps({ ...hour, gpus: [] }, ["a"]).values).toEqual([]);
});
