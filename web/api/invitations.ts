import { queryOptions } from "@tanstack/react-query";
import { readAnswer } from "./answer.ts";
import { ask } from "./http.ts";
import type { MemberRole } from "./members.ts";

/** An invitation that nobody has used yet. */
export type Invitation = {
  readonly id: string;
  /** Whom it is meant for: whoever has the link may use it. */
  readonly email: string;
  readonly role: MemberRole;
  readonly invitedBy: string;
  readonly isMailed: boolean;
  readonly mailedAt: string | null;
  readonly createdAt: string;
  readonly expiresAt: string;
};

/** An invitation as it was made; its link is told here or by mail, and never again. */
export type MadeInvitation = Invitation & { readonly inviteUrl: string | null };

/** What a link invites to. */
export type Offer = {
  readonly projectId: string;
  readonly projectName: string;
  readonly role: MemberRole;
  readonly email: string;
  readonly expiresAt: string;
};

/** Somebody to be invited. */
export type Wish = { readonly email: string; readonly role: MemberRole; readonly send: "link" | "mail" };

const place = (projectId: string): string => `/v2/projects/${projectId}/invitations`;

export function invitationsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["invitations", projectId],
    queryFn: ({ signal }) => ask<readonly Invitation[]>(place(projectId), { signal }),
  });
}

export async function invite(projectId: string, wish: Wish): Promise<MadeInvitation> {
  return await ask(place(projectId), { method: "POST", body: wish });
}

export async function revokeInvitation(projectId: string, id: string): Promise<void> {
  await ask(`${place(projectId)}/${id}`, { method: "DELETE" });
}

/** What the link is for; nobody has to be signed in. */
export function offerQuery(link: string) {
  return queryOptions({
    queryKey: ["offer", link],
    queryFn: async ({ signal }) => {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ link });
      return await readAnswer<Offer>(
        await fetch("/v2/invitation", { method: "POST", headers, body, signal }),
      );
    },
    retry: false,
    staleTime: Infinity,
  });
}

/** Joins with the account that is signed in. */
export async function joinProject(link: string): Promise<{ readonly projectId: string }> {
  return await ask("/v2/invitation/join", { method: "POST", body: { link } });
}
