import { infiniteQueryOptions } from "@tanstack/react-query";
import { AUDIT } from "../../src/shapes/projects.ts";
import { ask } from "./http.ts";

export type { AuditEntry } from "../../src/shapes/projects.ts";

/** More pages than these are not asked for again by themselves. */
const MAX_LIVE_PAGES = 4;

/** Every change of a project, newest first, page by page. */
export function auditQuery(projectId: string) {
  return infiniteQueryOptions({
    queryKey: ["audit", projectId],
    queryFn: ({ pageParam: nextToken, signal }) =>
      ask(AUDIT, `/v2/projects/${projectId}/audit`, { query: { nextToken, pageSize: 50 }, signal }),
    initialPageParam: "",
    getNextPageParam: ({ nextToken }) => nextToken || null,
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > MAX_LIVE_PAGES ? false : 5_000),
  });
}
