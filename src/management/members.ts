import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import type { People } from "../identity/people.ts";
import { AppError } from "../model/errors.ts";
import type { Store } from "../store/store.ts";
import { baseUrlOf } from "./api/base-url.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { record } from "./api/record.ts";
import { PROJECT_PATH, TIMESTAMP, timestamp } from "./api/schemas.ts";
import { EMAIL } from "./sign-in.ts";

export type MemberParts = {
  readonly store: Store;
  readonly people: People;
  readonly audit: Pick<Audit, "record">;
  readonly publicBaseUrl: string | null;
};

const TAG = "Members";
const PATH = "/v2/projects/{project_id}/members";
const ROLE = z.enum(["owner", "member"]);

const MEMBER = z.object({ personId: z.string(), email: z.string(), role: ROLE });

/** Who belongs to a project: an owner may do everything in it, a member what the role deploy may. */
export function memberOperations({ store, people, audit, publicBaseUrl }: MemberParts): AnyOperation[] {
  const find = async (projectId: string, isMeant: (member: z.infer<typeof MEMBER>) => boolean) => {
    const found = (await store.memberships.list(projectId)).find(isMeant);
    return found ? { personId: found.personId, email: found.email, role: found.role } : null;
  };

  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listMembers",
      tag: TAG,
      summary: "A project's members",
      access: "deploy",
      params: PROJECT_PATH,
      response: z.array(MEMBER.extend({ createdAt: TIMESTAMP })),
      handle: async ({ params }) =>
        (await store.memberships.list(params.project_id)).map(({ personId, email, role, createdAt }) => ({
          personId,
          email,
          role,
          createdAt: timestamp(createdAt),
        })),
    }),

    operation({
      method: "POST",
      path: PATH,
      id: "setMember",
      tag: TAG,
      summary: "Add a member, or change what one is; a new person gets a link to set a password with",
      access: "admin",
      params: PROJECT_PATH,
      body: z.object({ email: EMAIL, role: ROLE.default("member") }),
      response: MEMBER.extend({ inviteUrl: z.string().nullable() }),
      handle: async (call) => {
        const { body, reply } = call;
        const { project_id: projectId } = call.params;
        const { role } = body;
        const before = await find(projectId, ({ email }) => email === body.email.toLowerCase());
        const added = await people.setMember(projectId, body.email, role);
        if (!added) throw lastOwner();
        const { id: personId, email } = added.person;
        const after = { personId, email, role };
        await record(audit, call, { action: "member.set", target: personId, before, after });
        const base = baseUrlOf(reply.request, publicBaseUrl);
        reply.header("cache-control", "no-store");
        return { ...after, inviteUrl: added.link === null ? null : `${base}/password#${added.link}` };
      },
    }),

    operation({
      method: "DELETE",
      path: `${PATH}/{person_id}`,
      id: "removeMember",
      tag: TAG,
      summary: "Take a member out of the project",
      access: "admin",
      params: PROJECT_PATH.extend({ person_id: z.string().min(1).max(100) }),
      response: z.object({ personId: z.string() }),
      errors: ["not_found"],
      handle: async (call) => {
        const { project_id: projectId, person_id: personId } = call.params;
        const before = await find(projectId, (member) => member.personId === personId);
        const change = await people.removeMember(projectId, personId);
        if (change === "last_owner") throw lastOwner();
        if (change === "absent") throw new AppError("not_found");
        await record(audit, call, { action: "member.delete", target: personId, before, after: null });
        return { personId };
      },
    }),
  ];
}

function lastOwner(): AppError {
  return new AppError("bad_request", { message: "A project keeps at least one owner." });
}
