import type { ContainerRecord } from "../../src/shapes/apps.ts";

/** What was in use of GPUs at a time, in bytes by UUID. */
export type GpuReading = { readonly atMs: number; readonly used: Readonly<Record<string, number>> };

/** A GPU of an app's replicas. */
export type AppGpu = {
  readonly uuid: string;
  readonly model: string | null;
  readonly totalBytes: number | null;
  readonly usedBytes: number | null;
  /** What the app's replicas were granted of it; null for all of it. */
  readonly grantedBytes: number | null;
};

const WINDOW_MS = 15 * 60_000;
/** Longer than two looks. */
const STEP_MS = 15_000;
const STEPS = WINDOW_MS / STEP_MS;

/** The GPUs that replicas have, each once. */
export function gpusOf(replicas: readonly ContainerRecord[]): AppGpu[] {
  const held = Map.groupBy(
    replicas.flatMap(({ gpus }) => gpus ?? []),
    ({ uuid }) => uuid,
  );
  return [...held].map(([uuid, grants]) => {
    const shares = grants.map(({ memoryBytes }) => memoryBytes);
    const { model = null, totalBytes = null, usedBytes = null } = grants[0] ?? {};
    const grantedBytes = shares.reduce<number | null>(
      (sum, share) => (sum === null || share === null ? null : sum + share),
      0,
    );
    return { uuid, model, totalBytes, usedBytes, grantedBytes };
  });
}

/** Adds what replicas show of their GPUs, and forgets what is too old to be drawn. */
export function withReading(
  past: readonly GpuReading[],
  replicas: readonly ContainerRecord[],
  nowMs: number,
): GpuReading[] {
  const used = gpusOf(replicas).flatMap(({ uuid, usedBytes }) =>
    usedBytes === null ? [] : [[uuid, usedBytes] as const],
  );
  const recent = past.filter(({ atMs }) => atMs > nowMs - WINDOW_MS - STEP_MS);
  return [...recent, { atMs: nowMs, used: Object.fromEntries(used) }];
}

/** The last minutes step by step: the most that was in use of each GPU, null where nothing is known. */
export function gpuSteps(readings: readonly GpuReading[], uuids: readonly string[], nowMs: number) {
  const fromMs = (Math.floor(nowMs / STEP_MS) + 1 - STEPS) * STEP_MS;
  const values = Array.from({ length: STEPS }, (_, step) => {
    const startMs = fromMs + step * STEP_MS;
    const within = readings.filter(({ atMs }) => atMs >= startMs && atMs < startMs + STEP_MS);
    return Object.fromEntries(
      uuids.map((uuid): [string, number | null] => {
        const used = within.flatMap((reading) => reading.used[uuid] ?? []);
        return [uuid, used.length === 0 ? null : Math.max(...used)];
      }),
    );
  });
  return { axis: { fromMs, stepMs: STEP_MS, steps: STEPS }, values };
}
