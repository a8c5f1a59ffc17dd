import type { ScalingConfig } from "../../model/app-config.ts";

/** What the decision looks at. */
export type Load = {
  /** Calls in replicas' hands and waiting. */
  readonly calls: number;
  /** Calls that arrived per second, lately. */
  readonly callsPerSecond: number;
};

/** How many replicas the app should have now. Pure: the pool counts, this decides. */
export function desiredReplicas(scaling: ScalingConfig, load: Load): number {
  const wanted = Math.max(byConcurrency(scaling, load), byRate(scaling, load));
  const buffered = wanted + scaling.scalingBuffer;
  return Math.min(scaling.maxReplicas, Math.max(scaling.minReplicas, buffered));
}

/** Whether more replicas may be wanted while some slot is still free. */
export function growsEarly({ scalingBuffer, scalingMetric, scalingTarget }: ScalingConfig): boolean {
  if (scalingBuffer > 0 || scalingMetric === "requests_per_second") return true;
  return scalingMetric === "concurrency_utilization" && scalingTarget < 100;
}

function byConcurrency(scaling: ScalingConfig, load: Load): number {
  const isTarget = scaling.scalingMetric === "concurrency_utilization";
  const share = isTarget ? Math.min(100, Math.max(1, scaling.scalingTarget)) / 100 : 1;
  // Whatever the metric: replica_concurrency is a hard limit, so waiting calls need replicas.
  return Math.ceil(load.calls / (scaling.replicaConcurrency * share));
}

function byRate(scaling: ScalingConfig, load: Load): number {
  if (scaling.scalingMetric !== "requests_per_second") return 0;
  return Math.ceil(load.callsPerSecond / scaling.scalingTarget);
}
