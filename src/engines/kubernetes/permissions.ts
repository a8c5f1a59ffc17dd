import type { KubernetesApi } from "./api.ts";

/** One thing that the service does with objects of its namespace. */
export type Permission = { readonly verb: string; readonly group: string; readonly resource: string };

/** Every verb that is used, and no other; `packaging/kubernetes/role.yaml` grants exactly these. */
export const PERMISSIONS: readonly Permission[] = [
  // The one object that owns all others, and how the network of pods is closed: each is applied as a whole.
  ...grant("", "configmaps", ["create", "patch"]),
  ...grant("networking.k8s.io", "networkpolicies", ["create", "patch"]),
  // What a seat is told at its start.
  ...grant("", "secrets", ["create"]),
  // A seat.
  ...grant("", "pods", ["create", "delete", "get", "list", "watch"]),
  // Why it is not there: of some faults, nothing else tells.
  ...grant("", "events", ["list"]),
];

/** For people: `create secrets`. */
export function describePermission({ verb, group, resource }: Permission): string {
  return `${verb} ${resource}${group === "" ? "" : `.${group}`}`;
}

/** Asks the cluster whether whoever we are may do that in our namespace. */
export async function isAllowed(api: KubernetesApi, { verb, group, resource }: Permission): Promise<boolean> {
  const answer = await api.ask({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { namespace: api.namespace, verb, group, resource } },
    },
  });
  return (answer as { status?: { allowed?: unknown } } | null)?.status?.allowed === true;
}

function grant(group: string, resource: string, verbs: readonly string[]): Permission[] {
  return verbs.map((verb) => ({ verb, group, resource }));
}
