import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import type { Operators } from "../identity/operators.ts";
import type { People } from "../identity/people.ts";
import { requirePerson } from "../identity/principal.ts";
import type { Sessions } from "../identity/sessions.ts";
import { AppError } from "../model/errors.ts";
import { DONE, ID } from "../shapes/common.ts";
import { ME, SESSIONS } from "../shapes/people.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Store } from "../store/store.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation, Call } from "./api/operation.ts";
import { NEW_PASSWORD, PASSWORD } from "./signed-in.ts";

export type MeParts = {
  readonly store: Store;
  readonly people: People;
  readonly sessions: Sessions;
  readonly operators: Operators;
  readonly audit: Pick<Audit, "record">;
};

const TAG = "Sign-in";
const PATH = "/v2/me";

/** What a signed-in person sees and changes of themselves. */
export function meOperations({ store, people, sessions, operators, audit }: MeParts): AnyOperation[] {
  const record = async (
    { principal, ip, requestId }: Pick<Call<unknown, unknown, unknown>, "principal" | "ip" | "requestId">,
    action: string,
    target: string,
  ): Promise<void> => {
    const entry = { projectId: null, before: null, after: null };
    await audit.record({ ...entry, action, target, principal, ip, requestId });
  };

  return [
    operation({
      method: "GET",
      path: PATH,
      id: "getMe",
      tag: TAG,
      summary: "Get your own account and projects",
      access: "person",
      response: ME,
      handle: async ({ principal }) => {
        const person = requirePerson(principal);
        const { personId: id, email } = person;
        const [stored, projects, isOperator] = await Promise.all([
          store.people.find(id),
          store.memberships.projectsOf(id),
          operators.has(person),
        ]);
        const isProven = stored?.provenAt !== null && stored?.email === email;
        const shown = projects.map(({ id: of, name, role }) => ({ id: of, name, role }));
        return { id, email, isProven, isOperator, projects: shown };
      },
    }),

    operation({
      method: "POST",
      path: `${PATH}/password`,
      id: "changePassword",
      tag: TAG,
      summary: "Change your password; ends all your other sessions",
      access: "person",
      body: z.object({ currentPassword: PASSWORD, newPassword: NEW_PASSWORD }),
      response: DONE,
      errors: ["too_many_requests"],
      handle: async (call) => {
        const person = requirePerson(call.principal);
        const { currentPassword: current, newPassword: next } = call.body;
        await people.changePassword(person, { current, next, ip: call.ip });
        await record(call, "password.update", person.personId);
        return {};
      },
    }),

    operation({
      method: "GET",
      path: `${PATH}/sessions`,
      id: "listSessions",
      tag: TAG,
      summary: "List your sessions",
      access: "person",
      response: SESSIONS,
      handle: async ({ principal }) => {
        const { personId, sessionId } = requirePerson(principal);
        return (await sessions.list(personId)).map(({ id, kind, createdAt, refreshedAt, expiresAt }) => ({
          id,
          kind,
          isCurrent: id === sessionId,
          createdAt: timestamp(createdAt),
          refreshedAt: timestamp(refreshedAt),
          expiresAt: timestamp(expiresAt),
        }));
      },
    }),

    operation({
      method: "DELETE",
      path: `${PATH}/sessions/{session_id}`,
      id: "endSession",
      tag: TAG,
      summary: "End one of your sessions",
      access: "person",
      params: z.object({ session_id: z.string().min(1).max(100) }),
      response: ID,
      errors: ["not_found"],
      handle: async (call) => {
        const { personId } = requirePerson(call.principal);
        const { session_id: id } = call.params;
        if (!(await sessions.end(personId, id))) throw new AppError("not_found");
        await record(call, "session.delete", id);
        return { id };
      },
    }),
  ];
}
