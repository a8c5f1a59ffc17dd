import type { Network } from "../../model/app-config.ts";
import type { Workload } from "../engine.ts";

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
/** What runs in a pod, for people: `kubectl get pods -l millrace.dev/app=hello`. */
const PROJECT = "millrace.dev/project";
const APP = "millrace.dev/app";
const VERSION = "millrace.dev/version";
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

/** What runs in a pod: its project, app and version. */
export function workloadLabels({ projectId, names }: Pick<Workload, "projectId" | "names">): object {
  const app = names && { [APP]: labelValue(names.app), [VERSION]: labelValue(names.version) };
  return { [PROJECT]: labelValue(projectId), ...app };
}

/** What a label may hold of a text. */
export function labelValue(text: string): string {
  return text
    .replaceAll(/[^A-Za-z0-9._-]/g, "-")
    .slice(0, 63)
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
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
