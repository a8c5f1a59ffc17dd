import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import type { Invitations } from "../identity/invitations.ts";
import { AppError } from "../model/errors.ts";
import { INVITATION, INVITATIONS, MADE_INVITATION } from "../shapes/people.ts";
import type { InvitationRecord } from "../shapes/people.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Invitation } from "../store/accounts/invitations.ts";
import { baseUrlOf } from "./api/base-url.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation, Call } from "./api/operation.ts";
import { record } from "./api/record.ts";
import { MEMBER_ROLE, PROJECT_PATH } from "./api/schemas.ts";
import { EMAIL } from "./signed-in.ts";

export type InvitationParts = {
  readonly invitations: Invitations;
  readonly audit: Pick<Audit, "record">;
  readonly publicBaseUrl: string | null;
};

const TAG = "Members";
const PATH = "/v2/projects/{project_id}/invitations";

/** A project's open invitations, for its owners. */
export function invitationOperations({ invitations, audit, publicBaseUrl }: InvitationParts): AnyOperation[] {
  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listInvitations",
      tag: TAG,
      summary: "List a project's open invitations",
      access: "admin",
      params: PROJECT_PATH,
      response: INVITATIONS,
      handle: async ({ params }) => (await invitations.list(params.project_id)).map(shown),
    }),

    operation({
      method: "POST",
      path: PATH,
      id: "createInvitation",
      tag: TAG,
      summary: "Create an invitation: a link that lets one person join the project within seven days",
      access: "admin",
      params: PROJECT_PATH,
      body: z.object({
        email: EMAIL,
        role: MEMBER_ROLE.default("member"),
        send: z.enum(["link", "mail"]).default("link"),
      }),
      response: MADE_INVITATION,
      errors: ["too_many_requests"],
      handle: async (call) => {
        const { reply, body } = call;
        const { email, role, send } = body;
        const wish = {
          projectId: call.params.project_id,
          email,
          role,
          isMailed: send === "mail",
          ip: call.ip,
        };
        const { invitation, secret } = await invitations.make(wish, principalOf(call));
        const after = shown({ ...invitation, mailedAt: null });
        await record(audit, call, { action: "invitation.create", target: after.id, before: null, after });
        reply.header("cache-control", "no-store");
        const base = baseUrlOf(reply.request, publicBaseUrl);
        return { ...after, inviteUrl: secret === null ? null : `${base}/invitation#${secret}` };
      },
    }),

    operation({
      method: "DELETE",
      path: `${PATH}/{invitation_id}`,
      id: "revokeInvitation",
      tag: TAG,
      summary: "Revoke an invitation that has not been used",
      access: "admin",
      params: PROJECT_PATH.extend({ invitation_id: z.string().min(1).max(100) }),
      response: INVITATION,
      errors: ["not_found"],
      handle: async (call) => {
        const { project_id: projectId, invitation_id: id } = call.params;
        const revoked = await invitations.revoke(projectId, id);
        if (!revoked) throw new AppError("not_found");
        const before = shown(revoked);
        await record(audit, call, { action: "invitation.delete", target: id, before, after: null });
        return before;
      },
    }),
  ];
}

function shown(invitation: Omit<Invitation, "usedAt" | "usedBy">): InvitationRecord {
  const { id, email, role, inviterId, isMailed, mailedAt, createdAt, expiresAt } = invitation;
  return {
    id,
    email,
    role,
    invitedBy: inviterId,
    isMailed: isMailed === 1,
    mailedAt: mailedAt === null ? null : timestamp(mailedAt),
    createdAt: timestamp(createdAt),
    expiresAt: timestamp(expiresAt),
  };
}

function principalOf({ principal }: Pick<Call<unknown, unknown, unknown>, "principal">) {
  if (!principal) throw new AppError("unauthorized");
  return principal;
}
