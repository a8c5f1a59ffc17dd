import type { Network } from "../../model/app-config.ts";
import type { Workload } from "../engine.ts";

/** The owner of an object in the cluster. */
export type Whose = {
  /** Shared by all services of the installation. */
  readonly installationId: string;
  readonly nodeId: string;
};

export const INSTALLATION = "millrace.dev/installation";
export const NODE = "millrace.dev/node";
export const SEAT = "millrace.dev/seat";
export const NETWORK = "millrace.dev/network";
/** For `kubectl get pods -l millrace.dev/app=hello`. */
const PROJECT = "millrace.dev/project";
const APP = "millrace.dev/app";
const VERSION = "millrace.dev/version";
/** On nodes of the cluster: the name of their GPU, as in `compute` of an app. */
export const COMPUTE = "millrace.dev/compute";

/** The agent's container. A cluster may add others to a pod. */
export const CONTAINER = "seat";
export const BUILDKIT = "buildkitd";

export function labelsOf(installationId: string): Record<string, string> {
  return { "app.kubernetes.io/managed-by": "millrace", [INSTALLATION]: installationId };
}

export function workloadLabels({ projectId, names }: Pick<Workload, "projectId" | "names">): object {
  const app = names && { [APP]: labelValue(names.app), [VERSION]: labelValue(names.version) };
  return { [PROJECT]: labelValue(projectId), ...app };
}

export function labelValue(text: string): string {
  return text
    .replaceAll(/[^A-Za-z0-9._-]/g, "-")
    .slice(0, 63)
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
}

/** The name of the object that owns all others of an installation. */
export function ownerName(installationId: string): string {
  return `millrace-${installationId}`;
}

export function networkLabel(network: Network): "none" | "egress" | "open" {
  if (network === "egress") return "egress";
  return network ? "open" : "none";
}
