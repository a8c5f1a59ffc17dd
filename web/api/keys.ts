import { queryOptions } from "@tanstack/react-query";
import { ACCOUNT_WITH_TOKEN, ACCOUNTS, LISTED_ACCOUNT } from "../../src/shapes/projects.ts";
import type { AccountRecord, AccountWithToken } from "../../src/shapes/projects.ts";
import { ask, tell } from "./http.ts";

export type { Role } from "../../src/model/roles.ts";
export type { AccountWithToken as KeyWithToken, ListedAccount as Key } from "../../src/shapes/projects.ts";

/** What a key of the role `call` is limited to. */
export type NewLimits = Required<Pick<AccountRecord, "apps" | "functions" | "origins" | "callsPerMinute">>;

type NewKey = Pick<AccountRecord, "name" | "role" | "expiresAt" | "description" | "weight"> &
  Partial<NewLimits>;

const base = (projectId: string): string => `/v2/projects/${projectId}/service-accounts`;

export function keysQuery(projectId: string) {
  return queryOptions({
    queryKey: ["keys", projectId],
    queryFn: ({ signal }) => ask(ACCOUNTS, base(projectId), { signal }),
  });
}

export async function createKey(projectId: string, body: NewKey): Promise<AccountWithToken> {
  return await ask(ACCOUNT_WITH_TOKEN, base(projectId), { method: "POST", body });
}

/** A new token; the old one goes on for the overlap. */
export async function rotateKey(
  projectId: string,
  id: string,
  overlapSeconds: number,
): Promise<AccountWithToken> {
  return await ask(ACCOUNT_WITH_TOKEN, `${base(projectId)}/${id}/rotate`, {
    method: "POST",
    body: { overlapSeconds },
  });
}

/** How many turns its waiting calls have compared with those of others. */
export async function weighKey(projectId: string, id: string, weight: number): Promise<void> {
  await ask(LISTED_ACCOUNT, `${base(projectId)}/${id}`, { method: "PATCH", body: { weight } });
}

export async function deleteKey(projectId: string, id: string): Promise<void> {
  await tell(`${base(projectId)}/${id}`, { method: "DELETE" });
}
