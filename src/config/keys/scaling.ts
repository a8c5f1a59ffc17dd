import { LOAD_BALANCING, SCALING_METRICS, type ScalingConfig } from "../../model/app-config.ts";
import { decimal, duration, integer, line, oneOf, optional, key } from "../readers.ts";
import type { AppKeys, Host } from "../readers.ts";

const MAX_REPLICAS = 2000;

/**
 * One per core and at least two. Never fewer than `min_replicas`: a file that deploys on a large host
 * must not be refused on a small one for a key it does not have.
 */
function defaultMaxReplicas(host: Host, above: { readonly minReplicas?: unknown }): number {
  const minReplicas = typeof above.minReplicas === "number" ? above.minReplicas : 0;
  return Math.min(MAX_REPLICAS, Math.max(2, host.cpuCount, minReplicas));
}

/** The keys of `[scaling]`. */
export const SCALING_KEYS: AppKeys<ScalingConfig> = {
  minReplicas: key("scaling.min_replicas", "minReplicaCount", integer(0, MAX_REPLICAS), 0).describe(
    "Replicas to keep running when there are no calls.",
  ),
  maxReplicas: key(
    "scaling.max_replicas",
    "maxReplicaCount",
    integer(1, MAX_REPLICAS),
    defaultMaxReplicas,
  ).describe(
    "The most replicas at once, at least `min_replicas`. Default: the host's CPU count, but at least 2 and `min_replicas`.",
  ),
  replicaConcurrency: key("scaling.replica_concurrency", "replicaConcurrency", integer(1, 1000), 1).describe(
    "How many calls one replica handles at once.",
  ),
  cooldownSeconds: key("scaling.cooldown", "cooldownPeriodSeconds", duration("0s", "1h"), "30s").describe(
    "How long an idle replica is kept.",
  ),
  responseGracePeriodSeconds: key(
    "scaling.response_grace_period",
    "responseGracePeriodSeconds",
    duration("1s", "12h"),
    "15m",
  ).describe("How long one run may take, per attempt, counted from when a replica gets it."),
  scalingMetric: key(
    "scaling.scaling_metric",
    "scalingMetric",
    oneOf(SCALING_METRICS),
    "concurrency_utilization",
  ).describe(
    "The metric that scaling follows; cpu_utilization and memory_utilization are shares of `hardware.cpu` and `hardware.memory`.",
  ),
  scalingTarget: key("scaling.scaling_target", "scalingTarget", decimal(1, 100_000), 100).describe(
    "The value to keep the metric at: a percentage, or for requests_per_second, calls per second per replica.",
  ),
  scalingBuffer: key("scaling.scaling_buffer", "scalingBuffer", integer(0, MAX_REPLICAS), 0).describe(
    "Replicas kept ready beyond what the metric asks for.",
  ),
  rollOutDurationSeconds: key(
    "scaling.roll_out_duration_seconds",
    "rollOutDurationSeconds",
    duration("0s", "10m"),
    "0s",
  ).describe("How long a new version takes to take over from the old one."),
  evaluationIntervalSeconds: key(
    "scaling.evaluation_interval_seconds",
    "evaluationIntervalSeconds",
    duration("1s", "5m"),
    "30s",
  ).describe(
    "The time span over which the metric is measured; concurrency_utilization has no interval: it reacts to each call.",
  ),
  loadBalancingAlgorithm: key(
    "scaling.load_balancing_algorithm",
    "loadBalancingAlgorithm",
    oneOf(LOAD_BALANCING),
    "min-connections",
  ).describe("How a replica is picked for a call."),
  computeTier: key("scaling.compute_tier", "computeTier", optional(line(64))).describe(
    "Stored and shown, but without effect.",
  ),
  maxQueue: key("scaling.max_queue", null, integer(1, 1_000_000), 1000).describe(
    "How many callers may wait at once; the next one gets 503.",
  ),
  maxQueueSeconds: key("scaling.max_queue_seconds", null, duration("1s", "24h"), "10m").describe(
    "How long a caller waits for a free replica, not counting cold starts.",
  ),
  maxAttempts: key("scaling.max_attempts", null, integer(1, 20), 2).describe(
    "How many times an async run is started if its replica dies.",
  ),
  templateKeepSeconds: key("scaling.template_keep", null, duration("0s", "24h"), "15m").describe(
    "How long the template is kept after the last replica has ended. Pods and actors are kept only if you set it, and never if they request a GPU.",
  ),
};
