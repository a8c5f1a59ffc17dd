import { infiniteQueryOptions } from "@tanstack/react-query";
import { ask } from "./http.ts";

/** One change of a project. */
export type AuditEntry = {
  readonly id: string;
  readonly createdAt: string;
  /** The id of a service account or a person. */
  readonly actor: string | null;
  readonly action: string;
  readonly target: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly ip: string;
  readonly requestId: string;
};

type AuditPage = { readonly items: readonly AuditEntry[]; readonly nextToken: string };

/** More pages than these are not asked for again by themselves. */
const MAX_LIVE_PAGES = 4;

/** Every change of a project, newest first, page by page. */
export function auditQuery(projectId: string) {
  return infiniteQueryOptions({
    queryKey: ["audit", projectId],
    queryFn: ({ pageParam: nextToken, signal }) =>
      ask<AuditPage>(`/v2/projects/${projectId}/audit`, { query: { nextToken, pageSize: 50 }, signal }),
    initialPageParam: "",
    getNextPageParam: ({ nextToken }) => nextToken || null,
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > MAX_LIVE_PAGES ? false : 5_000),
  });
}
