import type { ScalingConfig } from "../../model/app-config.ts";

/** What the decision looks at. */
export type Load = {
  /** Calls in replicas' hands and waiting. */
  readonly calls: number;
  /** Calls that arrived per second, over the interval. */
  readonly callsPerSecond: number;
  /** What the replicas used together over the interval, in percent of what one of them may use. */
  readonly usedPercent: number;
};

/** How many replicas the app should have now. Pure: slots and meter measure, this decides. */
export function desiredReplicas(scaling: ScalingConfig, load: Load): number {
  // Whatever the metric: replica_concurrency is a hard limit, so waiting calls need replicas.
  const wanted = Math.max(byConcurrency(scaling, load), byMeasure(scaling, load));
  const buffered = wanted + scaling.scalingBuffer;
  return Math.min(scaling.maxReplicas, Math.max(scaling.minReplicas, buffered));
}

/** Whether a call may ask for more replicas while some slot is still free. */
export function growsEarly({ scalingBuffer, scalingMetric, scalingTarget }: ScalingConfig): boolean {
  return scalingBuffer > 0 || (scalingMetric === "concurrency_utilization" && scalingTarget < 100);
}

function byConcurrency(scaling: ScalingConfig, { calls }: Load): number {
  const isTarget = scaling.scalingMetric === "concurrency_utilization";
  const share = isTarget ? Math.min(100, Math.max(1, scaling.scalingTarget)) / 100 : 1;
  return Math.ceil(calls / (scaling.replicaConcurrency * share));
}

/** As many as bring the metric down to its target, if what was measured is divided among them. */
function byMeasure({ scalingMetric, scalingTarget }: ScalingConfig, load: Load): number {
  switch (scalingMetric) {
    case "concurrency_utilization":
      return 0;
    case "requests_per_second":
      return Math.ceil(load.callsPerSecond / scalingTarget);
    case "cpu_utilization":
    case "memory_utilization":
      return Math.ceil(load.usedPercent / scalingTarget);
    default:
      return scalingMetric satisfies never;
  }
}
