import { useQuery } from "@tanstack/react-query";
import { keysQuery } from "./keys.ts";
import { membersQuery, useIsOwner } from "./members.ts";

/** What people call the accounts and members that audit entries and builds name by their ids. */
export function useNames(projectId: string): ReadonlyMap<string, string> {
  const { data: members = [] } = useQuery(membersQuery(projectId));
  // Others may not list keys, and see their ids.
  const { data: keys = [] } = useQuery({ ...keysQuery(projectId), enabled: useIsOwner(projectId) === true });
  return new Map([
    ...members.map(({ personId, email }) => [personId, email] as const),
    ...keys.map(({ id, name }) => [id, name] as const),
  ]);
}
