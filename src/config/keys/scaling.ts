import { LOAD_BALANCING, SCALING_METRICS, type ScalingConfig } from "../../model/app-config.ts";
import { type AppKeys, decimal, duration, type Host, integer, line, oneOf, optional } from "../readers.ts";

/** The most replicas an app may ask for. */
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
  minReplicas: {
    path: "scaling.min_replicas",
    payload: "minReplicaCount",
    reader: integer(0, MAX_REPLICAS),
    default: 0,
    meaning: "Replicas to keep running when there are no calls.",
  },
  maxReplicas: {
    path: "scaling.max_replicas",
    payload: "maxReplicaCount",
    reader: integer(1, MAX_REPLICAS),
    defaultFor: defaultMaxReplicas,
    meaning:
      "The most replicas at once, at least `min_replicas`. Default: the host's CPU count, but at least 2 and `min_replicas`.",
  },
  replicaConcurrency: {
    path: "scaling.replica_concurrency",
    payload: "replicaConcurrency",
    reader: integer(1, 1000),
    default: 1,
    meaning: "How many calls one replica handles at once.",
  },
  cooldownSeconds: {
    path: "scaling.cooldown",
    payload: "cooldownPeriodSeconds",
    reader: duration("0s", "1h"),
    default: "30s",
    meaning: "How long an idle replica is kept.",
  },
  responseGracePeriodSeconds: {
    path: "scaling.response_grace_period",
    payload: "responseGracePeriodSeconds",
    reader: duration("1s", "12h"),
    default: "15m",
    meaning: "How long one run may take, per attempt, counted from when a replica gets it.",
  },
  scalingMetric: {
    path: "scaling.scaling_metric",
    payload: "scalingMetric",
    reader: oneOf(SCALING_METRICS),
    default: "concurrency_utilization",
    meaning:
      "The metric that scaling follows; cpu_utilization and memory_utilization are shares of `hardware.cpu` and `hardware.memory`.",
  },
  scalingTarget: {
    path: "scaling.scaling_target",
    payload: "scalingTarget",
    reader: decimal(1, 100_000),
    default: 100,
    meaning:
      "The value to keep the metric at: a percentage, or for requests_per_second, calls per second per replica.",
  },
  scalingBuffer: {
    path: "scaling.scaling_buffer",
    payload: "scalingBuffer",
    reader: integer(0, MAX_REPLICAS),
    default: 0,
    meaning: "Replicas kept ready beyond what the metric asks for.",
  },
  rollOutDurationSeconds: {
    path: "scaling.roll_out_duration_seconds",
    payload: "rollOutDurationSeconds",
    reader: duration("0s", "10m"),
    default: "0s",
    meaning: "How long a new version takes to take over from the old one.",
  },
  evaluationIntervalSeconds: {
    path: "scaling.evaluation_interval_seconds",
    payload: "evaluationIntervalSeconds",
    reader: duration("1s", "5m"),
    default: "30s",
    meaning:
      "The time span over which the metric is measured; concurrency_utilization has no interval: it reacts to each call.",
  },
  loadBalancingAlgorithm: {
    path: "scaling.load_balancing_algorithm",
    payload: "loadBalancingAlgorithm",
    reader: oneOf(LOAD_BALANCING),
    default: "min-connections",
    meaning: "How a replica is picked for a call.",
  },
  computeTier: {
    path: "scaling.compute_tier",
    payload: "computeTier",
    reader: optional(line(64)),
    meaning: "Stored and shown, but without effect.",
  },
  maxQueue: {
    path: "scaling.max_queue",
    reader: integer(1, 1_000_000),
    default: 1000,
    meaning: "How many callers may wait at once; the next one gets 503.",
  },
  maxQueueSeconds: {
    path: "scaling.max_queue_seconds",
    reader: duration("1s", "24h"),
    default: "10m",
    meaning: "How long a caller waits for a free replica, not counting cold starts.",
  },
  maxAttempts: {
    path: "scaling.max_attempts",
    reader: integer(1, 20),
    default: 2,
    meaning: "How many times an async run is started if its replica dies.",
  },
  templateKeepSeconds: {
    path: "scaling.template_keep",
    reader: duration("0s", "24h"),
    default: "15m",
    meaning:
      "How long the template is kept after the last replica has ended. Pods and actors are kept only if you set it, and never if they request a GPU.",
  },
};
