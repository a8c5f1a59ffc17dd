import { z } from "zod";
import { AppError } from "../../model/errors.ts";
import { DONE, ID, timestamp } from "../../shapes/common.ts";
import { ME, MY_ADDRESS, SESSIONS } from "../../shapes/people.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";
import { EMAIL, LINK, NEW_PASSWORD, PASSWORD } from "./sign-in.ts";

const operation = tagged("Sign-in");
const PATH = "/v2/me";
const EMAIL_PATH = `${PATH}/email` as const;

/** The account, password and sessions of the person who asks. */
export function meOperations({ store, people, sessions, operators }: ManagementParts): Operation[] {
  return [
    operation("GET", PATH, {
      id: "getMe",
      summary: "Get your own account and projects",
      access: "person",
      response: ME,
      handle: async ({ principal }) => {
        const { personId: id, email } = principal;
        const [stored, projects, isOperator] = await Promise.all([
          store.people.find(id),
          store.memberships.projectsOf(id),
          operators.has(principal),
        ]);
        const isProven = stored?.provenAt !== null && stored?.email === email;
        const shown = projects.map(({ id: of, name, role }) => ({ id: of, name, role }));
        return { id, email, isProven, isOperator, projects: shown };
      },
    }),
    operation("POST", `${PATH}/password`, {
      id: "changePassword",
      summary: "Change your password; ends all your other sessions",
      access: "person",
      body: z.object({ currentPassword: PASSWORD, newPassword: NEW_PASSWORD }),
      response: DONE,
      errors: ["too_many_requests"],
      handle: async (call) => {
        const { principal: person } = call;
        const { currentPassword: current, newPassword: next } = call.body;
        await people.changePassword(person, { current, next, ip: call.ip });
        await call.record({ action: "password.update", target: person.personId });
        return {};
      },
    }),
    operation("GET", `${PATH}/sessions`, {
      id: "listSessions",
      summary: "List your sessions",
      access: "person",
      response: SESSIONS,
      handle: async ({ principal }) => {
        const { personId, sessionId } = principal;
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
    operation("DELETE", `${PATH}/sessions/{session_id}`, {
      id: "endSession",
      summary: "End one of your sessions",
      access: "person",
      response: ID,
      errors: ["not_found"],
      handle: async (call) => {
        const { personId } = call.principal;
        const { session_id: id } = call.params;
        if (!(await sessions.end(personId, id))) throw new AppError("not_found");
        await call.record({ action: "session.delete", target: id });
        return { id };
      },
    }),
  ];
}

/** The address of the person who asks: changing it, and verifying it by mail. */
export function myAddressOperations({ addresses }: ManagementParts): Operation[] {
  return [
    operation("POST", EMAIL_PATH, {
      id: "changeEmail",
      summary: "Change the e-mail address you sign in with; it is unverified until you verify it",
      access: "person",
      body: z.object({ email: EMAIL, password: PASSWORD }),
      response: MY_ADDRESS,
      errors: ["too_many_requests"],
      handle: async (call) => {
        const { principal: person } = call;
        const { email, password } = call.body;
        await addresses.change(person, { email, password, ip: call.ip });
        const after = { email: email.toLowerCase() };
        const before = { email: person.email };
        await call.record({ action: "person.update", target: person.personId, before, after });
        return after;
      },
    }),
    operation("POST", `${EMAIL_PATH}/proof`, {
      id: "askForProof",
      summary: "Mail yourself a link that verifies your address",
      access: "person",
      response: DONE,
      errors: ["not_found", "too_many_requests"],
      handle: async ({ principal, ip }) => {
        await addresses.askForProof(principal, ip);
        return {};
      },
    }),
    operation("POST", `${EMAIL_PATH}/prove`, {
      id: "proveEmail",
      summary: "Verify your address with the mailed link; from then on it is verified for you alone",
      access: "person",
      body: z.object({ link: LINK }),
      response: MY_ADDRESS,
      handle: async (call) => {
        const email = await addresses.prove(call.principal, call.body.link);
        await call.record({ action: "person.prove-email", target: call.principal.personId, after: { email } });
        return { email };
      },
    }),
  ];
}
