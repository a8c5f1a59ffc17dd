import { describePermission } from "../../../src/engines/kubernetes/api.ts";

/** A rule of a role. */
export type Rule = { readonly apiGroups: string[]; readonly resources: string[]; readonly verbs: string[] };

/** What rules grant, for people: `create secrets`. */
export function grantedBy(rules: readonly Rule[]): string[] {
  return rules
    .flatMap(({ apiGroups, resources, verbs }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) => verbs.map((verb) => describePermission({ verb, group, resource }))),
      ),
    )
    .toSorted();
}
