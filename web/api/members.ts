import { queryOptions, useQuery } from "@tanstack/react-query";
import type { MemberRole } from "../../src/model/roles.ts";
import { MEMBERS, PROJECT, PASSWORD_LINK, SESSIONS } from "../../src/shapes/people.ts";
import type { ProjectRecord } from "../../src/shapes/people.ts";
import { ask, tell } from "./http.ts";
import { meQuery } from "./me.ts";

export type { MemberRole } from "../../src/model/roles.ts";
export type { ListedMember as Member, SessionRecord as SignIn } from "../../src/shapes/people.ts";

/** As they are offered: the usual one first. */
export const ROLE_CHOICES: readonly MemberRole[] = ["member", "owner"];

const base = (projectId: string): string => `/v2/projects/${projectId}/members`;

export function membersQuery(projectId: string) {
  return queryOptions({
    queryKey: ["members", projectId],
    queryFn: ({ signal }) => ask(MEMBERS, base(projectId), { signal }),
  });
}

export async function changeMember(projectId: string, personId: string, role: MemberRole): Promise<void> {
  await tell(`${base(projectId)}/${personId}`, { method: "PATCH", body: { role } });
}

/** A link by which somebody sets a new password; only who runs the installation makes them. */
export async function makePasswordLink(personId: string): Promise<{ readonly url: string | null }> {
  return await ask(PASSWORD_LINK, "/v2/password-links", { method: "POST", body: { personId } });
}

export async function removeMember(projectId: string, personId: string): Promise<void> {
  await tell(`${base(projectId)}/${personId}`, { method: "DELETE" });
}

export async function createProject(name: string): Promise<ProjectRecord> {
  return await ask(PROJECT, "/v2/projects", { method: "POST", body: { name } });
}

export async function changePassword(currentPassword: string, newPassword: string): Promise<void> {
  await tell("/v2/me/password", {
    method: "POST",
    body: { currentPassword, newPassword },
    hasPassword: true,
  });
}

/** Where the person is signed in. */
export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: ({ signal }) => ask(SESSIONS, "/v2/me/sessions", { signal }),
});

export async function endSession(id: string): Promise<void> {
  await tell(`/v2/me/sessions/${id}`, { method: "DELETE" });
}

/** Whether the person may change what is in the project; undefined while nobody knows, and in others' projects. */
export function useIsOwner(projectId: string): boolean | undefined {
  const { data: me } = useQuery(meQuery);
  const role = me?.projects.find(({ id }) => id === projectId)?.role;
  return role && role === "owner";
}
