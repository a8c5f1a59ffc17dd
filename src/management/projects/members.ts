import { z } from "zod";
import { AppError } from "../../model/errors.ts";
import { MEMBER, type MemberRecord, MEMBERS, REMOVED_MEMBER } from "../../shapes/people.ts";
import { timestamp } from "../../shapes/common.ts";
import type { Member, MembershipChange } from "../../store/accounts/memberships.ts";
import { MEMBER_ROLE } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("Members");
const PATH = "/v2/projects/{project_id}/members";

/** The members of a project: an owner has the role admin, a member the role deploy. */
export function memberOperations({ store, people }: ManagementParts): Operation[] {
  const find = async (projectId: string, personId: string) => {
    const members = await store.memberships.list(projectId);
    const found = members.find((member) => member.personId === personId);
    return found ? shown(found) : null;
  };

  return [
    operation("GET", PATH, {
      id: "listMembers",
      summary: "List a project's members",
      access: "deploy",
      response: MEMBERS,
      handle: async ({ params }) =>
        (await store.memberships.list(params.project_id)).map((member) => ({
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
        const { project_id: projectId, person_id: personId } = call.params;
        const { role } = call.body;
        const before = await find(projectId, personId);
        refuse(await people.setRole(projectId, personId, role));
        if (!before) throw new AppError("not_found");
        const after = { ...before, role };
        await call.record({ action: "member.update", target: personId, before, after });
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
        const { project_id: projectId, person_id: personId } = call.params;
        const before = await find(projectId, personId);
        refuse(await people.removeMember(projectId, personId));
        await call.record({ action: "member.delete", target: personId, before });
        return { personId };
      },
    }),
  ];
}

function shown({ personId, email, provenAt, role }: Member): MemberRecord {
  return { personId, email, isProven: provenAt !== null, role };
}

function refuse(change: MembershipChange): void {
  if (change === "absent") throw new AppError("not_found");
  if (change === "changed") return;
  throw new AppError("bad_request", { message: "A project needs at least one owner." });
}
