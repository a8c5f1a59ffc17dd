import { z } from "zod";
import { AppError } from "../../model/errors.ts";
import { INVITATION, INVITATIONS, JOINED, MADE_INVITATION, MEMBER, MEMBERS } from "../../shapes/people.ts";
import { type InvitationRecord, OFFER, REMOVED_MEMBER, SIGNED_UP } from "../../shapes/people.ts";
import { timestamp } from "../../shapes/common.ts";
import type { Member, MembershipChange } from "../../store/accounts/memberships.ts";
import { MEMBER_ROLE } from "../api/inputs.ts";
import { type Call, type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";
import type { Invitation, Joined } from "../../store/accounts/invitations.ts";
import { baseUrlOf } from "../api/addresses.ts";
import { answerSignedIn, EMAIL, LINK, NEW_PASSWORD } from "../people/sign-in.ts";

const operation = tagged("Members");
const invited = tagged("Sign-in");
const PATH = "/v2/projects/{project_id}/members";
const INVITATIONS_PATH = "/v2/projects/{project_id}/invitations";
const LINK_PATH = "/v2/invitation";

/** A project's members, and its open invitations. An owner has the role admin, a member the role deploy. */
export function memberOperations(parts: ManagementParts): Operation[] {
  const { store, people, invitations, publicBaseUrl } = parts;
  const find = async (projectId: string, personId: string) => {
    const members = await store.memberships.list(projectId);
    return members.map(shown).find((member) => member.personId === personId) ?? null;
  };

  return [
    operation("GET", PATH, {
      id: "listMembers",
      summary: "List a project's members",
      access: "deploy",
      response: MEMBERS,
      handle: async ({ projectId }) =>
        (await store.memberships.list(projectId)).map((member) => ({
          ...shown(member),
          createdAt: timestamp(member.createdAt),
        })),
    }),
    operation("PATCH", `${PATH}/{person_id}`, {
      id: "changeMember",
      summary: "Change a member's role; a former owner's invitations become invalid",
      access: "admin",
      body: z.object({ role: MEMBER_ROLE }),
      response: MEMBER,
      errors: ["not_found"],
      handle: async (call) => {
        const { person_id: personId } = call.params;
        const { role } = call.body;
        const before = await find(call.projectId, personId);
        refuse(await people.setRole(call.projectId, personId, role));
        if (!before) throw new AppError("not_found");
        const after = { ...before, role };
        await call.record("member.update", personId, { before, after });
        return after;
      },
    }),
    operation("DELETE", `${PATH}/{person_id}`, {
      id: "removeMember",
      summary: "Remove a member from the project, along with the invitations they made",
      access: "admin",
      response: REMOVED_MEMBER,
      errors: ["not_found"],
      handle: async (call) => {
        const { person_id: personId } = call.params;
        const before = await find(call.projectId, personId);
        refuse(await people.removeMember(call.projectId, personId));
        await call.record("member.delete", personId, { before });
        return { personId };
      },
    }),
    operation("GET", INVITATIONS_PATH, {
      id: "listInvitations",
      summary: "List a project's open invitations",
      access: "admin",
      response: INVITATIONS,
      handle: async ({ projectId }) => (await invitations.list(projectId)).map(invitationRecord),
    }),
    operation("POST", INVITATIONS_PATH, {
      id: "createInvitation",
      summary: "Create an invitation: a link that lets one person join the project within seven days",
      access: "admin",
      body: z.object({
        email: EMAIL,
        role: MEMBER_ROLE.default("member"),
        send: z.enum(["link", "mail"]).default("link"),
      }),
      response: MADE_INVITATION,
      errors: ["too_many_requests"],
      handle: async (call) => {
        const { reply, ip } = call;
        const { email, role, send } = call.body;
        const wish = { projectId: call.projectId, email, role, isMailed: send === "mail", ip };
        const { invitation, secret } = await invitations.make(wish, call.principal);
        const after = invitationRecord({ ...invitation, mailedAt: null });
        await call.record("invitation.create", after.id, { after });
        reply.header("cache-control", "no-store");
        const base = baseUrlOf(reply.request, publicBaseUrl);
        return { ...after, inviteUrl: secret === null ? null : `${base}/invitation#${secret}` };
      },
    }),
    operation("DELETE", `${INVITATIONS_PATH}/{invitation_id}`, {
      id: "revokeInvitation",
      summary: "Revoke an invitation that has not been used",
      access: "admin",
      response: INVITATION,
      errors: ["not_found"],
      handle: async (call) => {
        const { invitation_id: id } = call.params;
        const revoked = await invitations.revoke(call.projectId, id);
        if (!revoked) throw new AppError("not_found");
        const before = invitationRecord(revoked);
        await call.record("invitation.delete", id, { before });
        return before;
      },
    }),
  ];
}

function shown({ personId, email, provenAt, role }: Member) {
  return { personId, email, isProven: provenAt !== null, role };
}

function refuse(change: MembershipChange): void {
  if (change === "absent") throw new AppError("not_found");
  if (change === "changed") return;
  throw new AppError("bad_request", { message: "A project needs at least one owner." });
}

function invitationRecord(invitation: Omit<Invitation, "usedAt" | "usedBy">): InvitationRecord {
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

/** What the holder of an invitation link can do. The link is in the body, because URLs are logged. */
export function invitationLinkOperations({ invitations, publicBaseUrl }: ManagementParts): Operation[] {
  const recordJoin = async (call: Call, joined: Joined): Promise<void> => {
    const { id, projectId, personId, role } = joined;
    const before = joined.before === null ? null : { role: joined.before };
    await call.record("member.join", personId, { projectId, before, after: { role, invitationId: id } });
  };

  return [
    invited("POST", LINK_PATH, {
      id: "readInvitation",
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
    invited("POST", `${LINK_PATH}/join`, {
      id: "joinProject",
      summary: "Accept an invitation link with the account you are signed in to",
      access: "person",
      body: z.object({ link: LINK }),
      response: JOINED,
      handle: async (call) => {
        const joined = await invitations.join(call.body.link, call.principal);
        await recordJoin(call, joined);
        return { projectId: joined.projectId, role: joined.role };
      },
    }),
    invited("POST", `${LINK_PATH}/sign-up`, {
      id: "signUp",
      summary: "Accept an invitation link with a new account; sets the refresh token as a cookie",
      access: null,
      body: z.object({ link: LINK, email: EMAIL, password: NEW_PASSWORD }),
      response: SIGNED_UP,
      errors: ["forbidden", "too_many_requests"],
      handle: async (call) => {
        const { link, ...given } = call.body;
        const { joined, signedIn } = await invitations.signUp(link, { ...given, ip: call.ip });
        await recordJoin(call, joined);
        return { ...answerSignedIn(call.reply, signedIn, publicBaseUrl), projectId: joined.projectId };
      },
    }),
  ];
}
