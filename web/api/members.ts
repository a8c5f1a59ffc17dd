import { queryOptions, useQuery } from "@tanstack/react-query";
import { ask } from "./http.ts";
import { meQuery } from "./me.ts";

export const MEMBER_ROLES = ["member", "owner"] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

export type Member = {
  readonly personId: string;
  readonly email: string;
  readonly role: MemberRole;
  readonly createdAt: string;
};

/** A member as it was set; with the link for the password when the person is new. */
export type SetMember = Omit<Member, "createdAt"> & { readonly inviteUrl: string | null };

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

/** Adds somebody, or changes what they are. */
export async function setMember(projectId: string, email: string, role: MemberRole): Promise<SetMember> {
  return await ask(place(projectId), { method: "POST", body: { email, role } });
}

export async function removeMember(projectId: string, personId: string): Promise<void> {
  await ask(`${place(projectId)}/${personId}`, { method: "DELETE" });
}

export async function createProject(name: string): Promise<{ readonly id: string; readonly name: string }> {
  return await ask("/v2/projects", { method: "POST", body: { name } });
}

export async function changePassword(currentPassword: string, newPassword: string): Promise<void> {
  await ask("/v2/me/password", { method: "POST", body: { currentPassword, newPassword } });
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
