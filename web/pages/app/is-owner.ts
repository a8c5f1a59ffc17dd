import { useQuery } from "@tanstack/react-query";
import { meQuery } from "../../api/me.ts";

/** Whether the person may do what only owners of the project may; until that is known, yes. */
export function useIsOwner(projectId: string): boolean {
  const { data: me } = useQuery(meQuery);
  return me?.projects.find(({ id }) => id === projectId)?.role !== "member";
}
