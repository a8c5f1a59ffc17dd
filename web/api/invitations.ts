import { queryOptions } from "@tanstack/react-query";
import { INVITATIONS, JOINED, MADE_INVITATION, OFFER } from "../../src/shapes/people.ts";
import type { InvitationRecord, MadeInvitation } from "../../src/shapes/people.ts";
import { readAnswer } from "./answer.ts";
import { ask, tell } from "./http.ts";

export type {
  InvitationRecord as Invitation,
  MadeInvitation,
  OfferRecord as Offer,
} from "../../src/shapes/people.ts";

/** Somebody to be invited. */
export type Wish = Pick<InvitationRecord, "email" | "role"> & { readonly send: "link" | "mail" };

const base = (projectId: string): string => `/v2/projects/${projectId}/invitations`;

export function invitationsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["invitations", projectId],
    queryFn: ({ signal }) => ask(INVITATIONS, base(projectId), { signal }),
  });
}

export async function invite(projectId: string, wish: Wish): Promise<MadeInvitation> {
  return await ask(MADE_INVITATION, base(projectId), { method: "POST", body: wish });
}

export async function revokeInvitation(projectId: string, id: string): Promise<void> {
  await tell(`${base(projectId)}/${id}`, { method: "DELETE" });
}

/** What the link is for; nobody has to be signed in. */
export function offerQuery(link: string) {
  return queryOptions({
    queryKey: ["offer", link],
    queryFn: async ({ signal }) => {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ link });
      return await readAnswer(
        OFFER,
        await fetch("/v2/invitation", { method: "POST", headers, body, signal }),
      );
    },
    retry: false,
    staleTime: Infinity,
  });
}

/** Joins with the account that is signed in. */
export async function joinProject(link: string): Promise<{ readonly projectId: string }> {
  return await ask(JOINED, "/v2/invitation/join", { method: "POST", body: { link } });
}
