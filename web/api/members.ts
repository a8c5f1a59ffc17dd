import { queryOptions, useQuery } from "@tanstack/react-query";
import { ask } from "./http.ts";
import { meQuery } from "./me.ts";

export const MEMBER_ROLES = ["member", "owner"] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

export type Member = {
  readonly personId: string;
  /** A label, until it is proven. */
  readonly email: string;
  readonly isProven: boolean;
  readonly role: MemberRole;
  readonly createdAt: string;
};

/** Where a person is signed in. */
export type PlaceSignedIn = {
  readonly id: string;
  readonly kind: "browser" | "device";
  readonly isCurrent: boolean;
  readonly createdAt: string;
  readonly refreshedAt: string;
  readonly expiresAt: string;
};

const place = (projectId: string): string => `/v2/projects/${projectId}/members`;

export function membersQuery(projectId: string) {
  return queryOptions({
    queryKey: ["members", projectId],
    queryFn: ({ signal }) => ask<readonly Member[]>(place(projectId), { signal }),
  });
}

export async function changeMember(projectId: string, personId: string, role: MemberRole): Promise<void> {
  await ask(`${place(projectId)}/${personId}`, { method: "PATCH", body: { role } });
}

/** A link by which somebody sets a new password; only who runs the installation makes them. */
export async function makePasswordLink(personId: string): Promise<{ readonly url: string | null }> {
  return await ask("/v2/password-links", { method: "POST", body: { personId } });
}

export async function removeMember(projectId: string, personId: string): Promise<void> {
  await ask(`${place(projectId)}/${personId}`, { method: "DELETE" });
}

export async function createProject(name: string): Promise<{ readonly id: string; readonly name: string }> {
  return await ask("/v2/projects", { method: "POST", body: { name } });
}

export async function changePassword(currentPassword: string, newPassword: string): Promise<void> {
  await ask("/v2/me/password", { method: "POST", body: { currentPassword, newPassword }, hasPassword: true });
}

/** Where the person is signed in. */
export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: ({ signal }) => ask<readonly PlaceSignedIn[]>("/v2/me/sessions", { signal }),
});

export async function endSession(id: string): Promise<void> {
  await ask(`/v2/me/sessions/${id}`, { method: "DELETE" });
}

/** Whether the person may change what is in the project; undefined while nobody knows, and in others' projects. */
export function useIsOwner(projectId: string): boolean | undefined {
  const { data: me } = useQuery(meQuery);
  const role = me?.projects.find(({ id }) => id === projectId)?.role;
  return role && role === "owner";
}
