import type { Network } from "../../model/app-config.ts";

/** Whose an object in the cluster is. */
export type Whose = {
  /** Of the installation: all its services share one. */
  readonly installationId: string;
  /** Of the service that made it. */
  readonly nodeId: string;
};

/** On everything of ours. */
export const INSTALLATION = "millrace.dev/installation";
export const NODE = "millrace.dev/node";
export const SEAT = "millrace.dev/seat";
export const NETWORK = "millrace.dev/network";
/** On machines of the cluster: the card they have, as `compute` of an app calls it. */
export const COMPUTE = "millrace.dev/compute";

/** The container of a pod in which the agent runs. A cluster may add others to it. */
export const CONTAINER = "seat";
/** The one beside it that builds an image. */
export const BUILDKIT = "buildkitd";

/** All objects of an installation have these. */
export function labelsOf(installationId: string): Record<string, string> {
  return { "app.kubernetes.io/managed-by": "millrace", [INSTALLATION]: installationId };
}

/** The name of the one object that owns all others of an installation. */
export function ownerName(installationId: string): string {
  return `millrace-${installationId}`;
}

/** What `network` of an app is called in a label. */
export function networkLabel(network: Network): "none" | "egress" | "open" {
  if (network === "egress") return "egress";
  return network ? "open" : "none";
}
