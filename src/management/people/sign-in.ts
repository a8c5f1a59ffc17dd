import type { FastifyReply } from "fastify";
import { z } from "zod";
import { CHALLENGE } from "../../identity/principal.ts";
import type { SignedIn } from "../../identity/sessions.ts";
import { AppError, type ErrorCode } from "../../model/errors.ts";
import { DONE, ID, timestamp } from "../../shapes/common.ts";
import {
  ME,
  MY_ADDRESS,
  PASSWORD_LINK,
  SESSIONS,
  SIGNED_IN,
  type SignedInRecord,
} from "../../shapes/people.ts";
import { baseUrlOf } from "../api/addresses.ts";
import { type Call, type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";
import { readRefreshCookie, refuseOtherSites, setRefreshCookie } from "./refresh-cookie.ts";

const operation = tagged("Sign-in");
const ERRORS: readonly ErrorCode[] = ["unauthorized", "forbidden", "too_many_requests"];

/** Sign-in by a set-up link, a password, a reset link or the cookie; and sign-out. */
export function signInOperations(parts: ManagementParts): Operation[] {
  const { people, sessions, publicBaseUrl } = parts;
  const answer = ({ reply }: Pick<Call, "reply">, signedIn: SignedIn) =>
    answerSignedIn(reply, signedIn, publicBaseUrl);
  return [
    operation("POST", "/v2/setup", {
      id: "setUp",
      summary: "Create the first account, with the link printed at the first start",
      access: null,
      body: z.object({ link: LINK, email: EMAIL, password: NEW_PASSWORD }),
      response: SIGNED_IN,
      errors: ERRORS,
      handle: async (call) => {
        const { link, ...given } = call.body;
        const signedIn = await people.setUp(link, { ...given, ip: call.ip });
        await call.record("person.create", signedIn.personId, { after: { email: given.email } });
        return answer(call, signedIn);
      },
    }),
    operation("POST", "/v2/session", {
      id: "signIn",
      summary: "Sign in with e-mail and password; sets the refresh token as a cookie",
      access: null,
      body: z.object({ email: z.string().max(254), password: PASSWORD }),
      response: SIGNED_IN,
      errors: ERRORS,
      handle: async (call) => {
        const signedIn = await people.signIn({ ...call.body, ip: call.ip });
        await call.record("session.create", signedIn.personId);
        return answer(call, signedIn);
      },
    }),
    operation("POST", "/v2/session/refresh", {
      id: "refreshSession",
      summary: "Get a new access token with the refresh cookie",
      access: null,
      response: SIGNED_IN,
      errors: ERRORS,
      handle: async (call) => {
        refuseOtherSites(call.reply.request, publicBaseUrl);
        const cookie = readRefreshCookie(call.reply, publicBaseUrl);
        const signedIn = cookie === null ? null : await sessions.refresh(cookie, "browser");
        if (!signedIn) {
          const message = "The session has ended: sign in again.";
          throw new AppError("unauthorized", { message, headers: CHALLENGE });
        }
        return answer(call, signedIn);
      },
    }),
    operation("DELETE", "/v2/session", {
      id: "signOut",
      summary: "Sign out: end the cookie's session",
      access: null,
      response: DONE,
      errors: ["unauthorized", "forbidden"],
      handle: async (call) => {
        refuseOtherSites(call.reply.request, publicBaseUrl);
        const cookie = readRefreshCookie(call.reply, publicBaseUrl);
        const ended = cookie === null ? null : await sessions.endByToken(cookie);
        if (ended) await call.record("session.delete", ended.personId);
        setRefreshCookie(call.reply, null, publicBaseUrl);
        return {};
      },
    }),
    operation("POST", "/v2/password", {
      id: "acceptPasswordLink",
      summary: "Set a new password with a reset link, and sign in",
      access: null,
      body: z.object({ link: LINK, password: NEW_PASSWORD }),
      response: SIGNED_IN,
      errors: ERRORS,
      handle: async (call) => {
        const signedIn = await people.acceptLink(call.body.link, { ...call.body, ip: call.ip });
        await call.record("password.update", signedIn.personId);
        return answer(call, signedIn);
      },
    }),
    operation("POST", "/v2/password/forgotten", {
      id: "forgotPassword",
      summary: "Mail a password-reset link, if the address is verified; the answer never says whether it is",
      access: null,
      body: z.object({ email: EMAIL }),
      response: DONE,
      errors: ["not_found", "too_many_requests"],
      handle: ({ body, ip }) => {
        people.forgotten(body.email, ip);
        return {};
      },
    }),
  ];
}

export const EMAIL = z.email().max(254);
export const NEW_PASSWORD = z.string().min(10).max(200);
/** A password to check: its length is not limited to that of new ones. */
const PASSWORD = z.string().max(1000);
export const LINK = z.string().min(1).max(1000);

export function answerSignedIn(
  reply: FastifyReply,
  { personId, accessToken, expiresAt, refreshToken }: SignedIn,
  publicBaseUrl: string | null,
): SignedInRecord {
  if (refreshToken !== null) setRefreshCookie(reply, refreshToken, publicBaseUrl);
  reply.header("cache-control", "no-store");
  return { personId, accessToken, expiresAt: timestamp(expiresAt) };
}

const MEANT = z.union([z.object({ personId: z.string().min(1).max(100) }), z.object({ email: EMAIL })]);

const PATH = "/v2/me";
const EMAIL_PATH = `${PATH}/email` as const;

/** Links that set a password, made by the operator; the account, password, sessions and address of the caller. */
export function accountOperations(parts: ManagementParts): Operation[] {
  const { store, people, sessions, operators, publicBaseUrl, projectId } = parts;
  return [
    operation("POST", "/v2/password-links", {
      id: "makePasswordLink",
      summary: "Create a password-reset link for a person; the only way to reset a password without mail",
      access: "operator",
      body: MEANT,
      response: PASSWORD_LINK,
      handle: async ({ body, reply, record }) => {
        const { link, people: meant } = await people.passwordLink(body);
        const [only] = meant;
        if (link !== null && only) await record("person.password-link", only.id, { projectId });
        reply.header("cache-control", "no-store");
        const base = baseUrlOf(reply.request, publicBaseUrl);
        return {
          url: link === null ? null : `${base}/password#${link}`,
          people: meant.map(({ id: personId, email, provenAt, createdAt, projectIds }) => ({
            personId,
            email,
            isProven: provenAt !== null,
            createdAt: timestamp(createdAt),
            projectIds: [...projectIds],
          })),
        };
      },
    }),
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
        const { currentPassword: current, newPassword: next } = call.body;
        await people.changePassword(call.principal, { current, next, ip: call.ip });
        await call.record("password.update", call.principal.personId);
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
        const { session_id: id } = call.params;
        if (!(await sessions.end(call.principal.personId, id))) throw new AppError("not_found");
        await call.record("session.delete", id);
        return { id };
      },
    }),
    operation("POST", EMAIL_PATH, {
      id: "changeEmail",
      summary: "Change the e-mail address you sign in with; it is unverified until you verify it",
      access: "person",
      body: z.object({ email: EMAIL, password: PASSWORD }),
      response: MY_ADDRESS,
      errors: ["too_many_requests"],
      handle: async (call) => {
        const { personId, email } = call.principal;
        await people.changeEmail(call.principal, { ...call.body, ip: call.ip });
        const after = { email: call.body.email.toLowerCase() };
        await call.record("person.update", personId, { before: { email }, after });
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
        await people.askForProof(principal, ip);
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
        const email = await people.prove(call.principal, call.body.link);
        await call.record("person.prove-email", call.principal.personId, { after: { email } });
        return { email };
      },
    }),
  ];
}
