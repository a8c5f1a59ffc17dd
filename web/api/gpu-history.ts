import type { ContainerRecord } from "../../src/shapes/apps.ts";
import type { AppGpus } from "../../src/shapes/hardware.ts";

export type { AppGpus } from "../../src/shapes/hardware.ts";

/** A GPU of an app's replicas. */
export type AppGpu = {
  readonly uuid: string;
  readonly model: string | null;
  readonly totalBytes: number | null;
  readonly usedBytes: number | null;
  /** What of that the app's replicas use; null if unknown. */
  readonly ownUsedBytes: number | null;
  /** What the app's replicas were granted of it; null for all of it. */
  readonly grantedBytes: number | null;
};

/** As long as a step. */
export const HISTORY_REFRESH_MS = 10_000;

/** The GPUs that replicas have, each once. */
export function gpusOf(replicas: readonly ContainerRecord[]): AppGpu[] {
  const held = Map.groupBy(
    replicas.flatMap(({ gpus }) => gpus ?? []),
    ({ uuid }) => uuid,
  );
  return [...held].map(([uuid, grants]) => {
    const { model = null, totalBytes = null, usedBytes = null } = grants[0] ?? {};
    const grantedBytes = sumOf(grants.map(({ memoryBytes }) => memoryBytes));
    const ownUsedBytes = sumOf(grants.map((grant) => grant.ownUsedBytes ?? null));
    return { uuid, model, totalBytes, usedBytes, ownUsedBytes, grantedBytes };
  });
}

/** Under which the use of all an app's replicas is drawn, beside that of GPUs. */
export const OWN = "own";

/** What was in use step by step, of those GPUs by UUID and by the app's replicas on all of them. */
export function appSteps({ from, stepMs, gpus }: AppGpus, uuids: readonly string[]) {
  const steps = gpus[0]?.usedBytes.length ?? 0;
  const drawn = gpus.filter(({ uuid }) => uuids.includes(uuid));
  const values = Array.from({ length: steps }, (_, step) => {
    const own = gpus.flatMap(({ ownUsedBytes }) => ownUsedBytes[step] ?? []);
    return Object.fromEntries<number | null>([
      ...drawn.map(({ uuid, usedBytes }) => [uuid, usedBytes[step] ?? null] as const),
      [OWN, own.length === 0 ? null : sumOf(own)],
    ]);
  });
  return { axis: { fromMs: Date.parse(from), stepMs, steps }, values };
}

/** Null if one is. */
function sumOf(values: readonly (number | null)[]): number | null {
  return values.reduce<number | null>(
    (sum, value) => (sum === null || value === null ? null : sum + value),
    0,
  );
}
