import type { ScalingConfig } from "../../model/app-config.ts";

/** Long enough that one queued run after the other finds its replica, and no longer. */
const COOLDOWN_SECONDS = 2;

/** The scaling of a version that no new calls are sent to: so many replicas, and those its calls ask for. */
export function standbyScaling(scaling: ScalingConfig, replicas: number): ScalingConfig {
  return {
    ...scaling,
    minReplicas: replicas,
    cooldownSeconds: Math.min(scaling.cooldownSeconds, COOLDOWN_SECONDS),
    // Neither a buffer nor the rate of earlier calls: both would keep replicas that nobody needs.
    scalingBuffer: 0,
    scalingMetric: "concurrency_utilization",
    scalingTarget: 100,
  };
}
