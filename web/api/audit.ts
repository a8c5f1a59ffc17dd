import { infiniteQueryOptions } from "@tanstack/react-query";
import { AUDIT } from "../../src/shapes/projects.ts";
import type { AuditEntry } from "../../src/shapes/projects.ts";
import { RANGES } from "./figures.ts";
import type { RangeName } from "./figures.ts";
import { ask } from "./http.ts";

export type { AuditEntry } from "../../src/shapes/projects.ts";

/** What the list of changes is narrowed to; all of it is in the address. */
export type AuditSearch = {
  readonly actor?: string;
  /** How the action begins. */
  readonly action?: string;
  readonly since?: RangeName;
};

/** More pages than these are not asked for again by themselves. */
const MAX_LIVE_PAGES = 4;
/** A file holds so many entries at most. */
const MAX_EXPORTED = 100_000;

/** What of an address narrows the list, and which entry is open. */
export function readAuditSearch(search: Record<string, unknown>): AuditSearch & { readonly entry?: number } {
  const { actor, action, since, entry } = search;
  return {
    ...(typeof actor === "string" && actor !== "" && { actor }),
    ...(typeof action === "string" && action !== "" && { action }),
    ...(typeof since === "string" && Object.hasOwn(RANGES, since) && { since: since as RangeName }),
    ...(typeof entry === "number" && { entry }),
  };
}

/** Changes of a project, newest first, page by page. */
export function auditQuery(projectId: string, search: AuditSearch) {
  return infiniteQueryOptions({
    queryKey: ["audit", projectId, search],
    queryFn: ({ pageParam: nextToken, signal }) =>
      ask(AUDIT, `/v2/projects/${projectId}/audit`, {
        query: { ...queryOf(search), nextToken, pageSize: 50 },
        signal,
      }),
    initialPageParam: "",
    getNextPageParam: ({ nextToken }) => nextToken || null,
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > MAX_LIVE_PAGES ? false : 5_000),
  });
}

/** All changes that match, newest first. */
export async function readWholeAudit(projectId: string, search: AuditSearch): Promise<AuditEntry[]> {
  const entries: AuditEntry[] = [];
  const query = queryOf(search);
  let nextToken = "";
  do {
    const path = `/v2/projects/${projectId}/audit`;
    const page = await ask(AUDIT, path, { query: { ...query, nextToken, pageSize: 1_000 } });
    entries.push(...page.items);
    nextToken = page.nextToken;
  } while (nextToken !== "" && entries.length < MAX_EXPORTED);
  return entries;
}

function queryOf({ actor, action, since }: AuditSearch) {
  return { actor, action, from: since && new Date(Date.now() - RANGES[since].ms).toISOString() };
}
