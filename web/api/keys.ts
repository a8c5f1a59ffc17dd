import { queryOptions } from "@tanstack/react-query";
import { ask } from "./http.ts";

export type Role = "run" | "deploy" | "admin";

/** A service account as lists show it. */
export type Key = {
  readonly id: string;
  readonly name: string;
  readonly description: string | null;
  readonly role: Role;
  readonly createdAt: string;
  readonly expiresAt: string;
  readonly lastUsedAt: string | null;
  readonly revokedAt: string | null;
};
export type KeyWithToken = Omit<Key, "lastUsedAt" | "revokedAt"> & { readonly token: string };
export type NewKey = {
  readonly name: string;
  readonly role: Role;
  readonly expiresAt: string;
  readonly description: string | null;
};

const place = (projectId: string): string => `/v2/projects/${projectId}/service-accounts`;

export function keysQuery(projectId: string) {
  return queryOptions({
    queryKey: ["keys", projectId],
    queryFn: ({ signal }) => ask<readonly Key[]>(place(projectId), { signal }),
  });
}

export async function createKey(projectId: string, body: NewKey): Promise<KeyWithToken> {
  return await ask(place(projectId), { method: "POST", body });
}

/** A new token; the old one goes on for the overlap. */
export async function rotateKey(
  projectId: string,
  id: string,
  overlapSeconds: number,
): Promise<KeyWithToken> {
  return await ask(`${place(projectId)}/${id}/rotate`, { method: "POST", body: { overlapSeconds } });
}

export async function deleteKey(projectId: string, id: string): Promise<void> {
  await ask(`${place(projectId)}/${id}`, { method: "DELETE" });
}
