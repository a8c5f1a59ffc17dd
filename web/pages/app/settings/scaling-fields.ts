import type { Scaling } from "../../../api/apps.ts";

type ScalingField = {
  readonly member: keyof Scaling;
  /** The same in the configuration. */
  readonly key: string;
  readonly label: string;
};

/** What of the scaling can be changed while an app serves, in the order of the form. */
export const SCALING_FIELDS: readonly ScalingField[] = [
  { member: "minReplicaCount", key: "scaling.min_replicas", label: "Replicas, at least" },
  { member: "maxReplicaCount", key: "scaling.max_replicas", label: "Replicas, at most" },
  { member: "replicaConcurrency", key: "scaling.replica_concurrency", label: "Concurrent calls per replica" },
  { member: "cooldownPeriodSeconds", key: "scaling.cooldown", label: "Cooldown, seconds" },
  {
    member: "responseGracePeriodSeconds",
    key: "scaling.response_grace_period",
    label: "Longest run, seconds",
  },
];
