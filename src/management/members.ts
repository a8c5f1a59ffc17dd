import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import type { People } from "../identity/people.ts";
import { AppError } from "../model/errors.ts";
import { MEMBER, MEMBERS, REMOVED_MEMBER } from "../shapes/people.ts";
import type { MemberRecord } from "../shapes/people.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Member, MembershipChange } from "../store/accounts/memberships.ts";
import type { Store } from "../store/store.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { record } from "./api/record.ts";
import { MEMBER_ROLE, PROJECT_PATH } from "./api/schemas.ts";

export type MemberParts = {
  readonly store: Store;
  readonly people: People;
  readonly audit: Pick<Audit, "record">;
};

const TAG = "Members";
const PATH = "/v2/projects/{project_id}/members";

const MEMBER_PATH = PROJECT_PATH.extend({ person_id: z.string().min(1).max(100) });

/** Who belongs to a project: an owner may do everything in it, a member what the role deploy may. */
export function memberOperations({ store, people, audit }: MemberParts): AnyOperation[] {
  const find = async (projectId: string, personId: string) => {
    const members = await store.memberships.list(projectId);
    const found = members.find((member) => member.personId === personId);
    return found ? shown(found) : null;
  };

  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listMembers",
      tag: TAG,
      summary: "List a project's members",
      access: "deploy",
      params: PROJECT_PATH,
      response: MEMBERS,
      handle: async ({ params }) =>
        (await store.memberships.list(params.project_id)).map((member) => ({
          ...shown(member),
          createdAt: timestamp(member.createdAt),
        })),
    }),

    operation({
      method: "PATCH",
      path: `${PATH}/{person_id}`,
      id: "changeMember",
      tag: TAG,
      summary: "Change a member's role; a former owner's invitations become invalid",
      access: "admin",
      params: MEMBER_PATH,
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
        await record(audit, call, { action: "member.update", target: personId, before, after });
        return after;
      },
    }),

    operation({
      method: "DELETE",
      path: `${PATH}/{person_id}`,
      id: "removeMember",
      tag: TAG,
      summary: "Remove a member from the project, along with the invitations they made",
      access: "admin",
      params: MEMBER_PATH,
      response: REMOVED_MEMBER,
      errors: ["not_found"],
      handle: async (call) => {
        const { project_id: projectId, person_id: personId } = call.params;
        const before = await find(projectId, personId);
        refuse(await people.removeMember(projectId, personId));
        await record(audit, call, { action: "member.delete", target: personId, before, after: null });
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
