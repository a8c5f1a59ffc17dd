import { z } from "zod";
import { requirePerson } from "../identity/principal.ts";
import type { Principal } from "../identity/principal.ts";
import { JOINED, OFFER, SIGNED_UP } from "../shapes/people.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Joined } from "../store/accounts/invitations.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation, Call } from "./api/operation.ts";
import type { InvitationParts } from "./invitations.ts";
import { EMAIL, LINK, NEW_PASSWORD, answerSignedIn } from "./signed-in.ts";

const TAG = "Sign-in";
const PATH = "/v2/invitation";

/** What whoever has an invitation's link does with it. The link is its whole right, so it is in no address. */
export function invitationLinkOperations({
  invitations,
  audit,
  publicBaseUrl,
}: InvitationParts): AnyOperation[] {
  const record = async (
    { ip, requestId }: Pick<Call<unknown, unknown, unknown>, "ip" | "requestId">,
    { id, projectId, personId, before, role }: Joined,
    principal: Principal | null,
  ): Promise<void> => {
    await audit.record({
      projectId,
      action: "member.join",
      target: personId,
      before: before === null ? null : { role: before },
      after: { role, invitationId: id },
      principal,
      ip,
      requestId,
    });
  };

  return [
    operation({
      method: "POST",
      path: PATH,
      id: "readInvitation",
      tag: TAG,
      summary: "Show what an invitation link is for",
      access: null,
      body: z.object({ link: LINK }),
      response: OFFER,
      errors: ["forbidden"],
      handle: async ({ body, reply }) => {
        const { projectId, projectName, role, email, expiresAt } = await invitations.read(body.link);
        reply.header("cache-control", "no-store");
        return { projectId, projectName, role, email, expiresAt: timestamp(expiresAt) };
      },
    }),

    operation({
      method: "POST",
      path: `${PATH}/join`,
      id: "joinProject",
      tag: TAG,
      summary: "Accept an invitation link with the account you are signed in to",
      access: "person",
      body: z.object({ link: LINK }),
      response: JOINED,
      handle: async (call) => {
        const person = requirePerson(call.principal);
        const joined = await invitations.join(call.body.link, person);
        await record(call, joined, person);
        return { projectId: joined.projectId, role: joined.role };
      },
    }),

    operation({
      method: "POST",
      path: `${PATH}/sign-up`,
      id: "signUp",
      tag: TAG,
      summary: "Accept an invitation link with a new account; sets the refresh token as a cookie",
      access: null,
      body: z.object({ link: LINK, email: EMAIL, password: NEW_PASSWORD }),
      response: SIGNED_UP,
      errors: ["forbidden", "too_many_requests"],
      handle: async (call) => {
        const { link, email, password } = call.body;
        const { joined, signedIn } = await invitations.signUp(link, { email, password, ip: call.ip });
        await record(call, joined, null);
        return { ...answerSignedIn(call.reply, signedIn, publicBaseUrl), projectId: joined.projectId };
      },
    }),
  ];
}
