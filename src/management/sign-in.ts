import { z } from "zod";
import type { Addresses } from "../identity/addresses.ts";
import type { Audit } from "../identity/audit.ts";
import { CHALLENGE } from "../identity/bearer.ts";
import type { People } from "../identity/people.ts";
import type { Sessions, SignedIn } from "../identity/sessions.ts";
import { AppError } from "../model/errors.ts";
import type { ErrorCode } from "../model/errors.ts";
import { DONE } from "../shapes/common.ts";
import { SIGNED_IN } from "../shapes/people.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation, Call } from "./api/operation.ts";
import { readRefreshCookie, refuseOtherSites, setRefreshCookie } from "./refresh-cookie.ts";
import { EMAIL, LINK, NEW_PASSWORD, PASSWORD, answerSignedIn } from "./signed-in.ts";

export type SignInParts = {
  readonly people: People;
  readonly sessions: Sessions;
  readonly addresses: Addresses;
  readonly audit: Pick<Audit, "record">;
  readonly publicBaseUrl: string | null;
};

const TAG = "Sign-in";
const ERRORS: readonly ErrorCode[] = ["unauthorized", "forbidden", "too_many_requests"];

/** The ways in: set-up, e-mail and password, a link, the cookie; and the way out. */
export function signInOperations(parts: SignInParts): AnyOperation[] {
  const { people, sessions, addresses, audit, publicBaseUrl } = parts;
  const answer = ({ reply }: Pick<Call<unknown, unknown, unknown>, "reply">, signedIn: SignedIn) =>
    answerSignedIn(reply, signedIn, publicBaseUrl);
  const record = async (
    { ip, requestId }: Pick<Call<unknown, unknown, unknown>, "ip" | "requestId">,
    action: string,
    target: string,
    after: unknown = null,
  ): Promise<void> => {
    const entry = { projectId: null, before: null, principal: null };
    await audit.record({ ...entry, action, target, after, ip, requestId });
  };

  return [
    operation({
      method: "POST",
      path: "/v2/setup",
      id: "setUp",
      tag: TAG,
      summary: "Create the first account, with the link printed at the first start",
      access: null,
      body: z.object({ link: LINK, email: EMAIL, password: NEW_PASSWORD }),
      response: SIGNED_IN,
      errors: ERRORS,
      handle: async (call) => {
        const { link, email, password } = call.body;
        const signedIn = await people.setUp(link, { email, password, ip: call.ip });
        await record(call, "person.create", signedIn.personId, { email });
        return answer(call, signedIn);
      },
    }),

    operation({
      method: "POST",
      path: "/v2/session",
      id: "signIn",
      tag: TAG,
      summary: "Sign in with e-mail and password; sets the refresh token as a cookie",
      access: null,
      body: z.object({ email: z.string().max(254), password: PASSWORD }),
      response: SIGNED_IN,
      errors: ERRORS,
      handle: async (call) => {
        const signedIn = await people.signIn({ ...call.body, ip: call.ip });
        await record(call, "session.create", signedIn.personId);
        return answer(call, signedIn);
      },
    }),

    operation({
      method: "POST",
      path: "/v2/session/refresh",
      id: "refreshSession",
      tag: TAG,
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

    operation({
      method: "DELETE",
      path: "/v2/session",
      id: "signOut",
      tag: TAG,
      summary: "Sign out: end the cookie's session",
      access: null,
      response: DONE,
      errors: ["unauthorized", "forbidden"],
      handle: async (call) => {
        refuseOtherSites(call.reply.request, publicBaseUrl);
        const cookie = readRefreshCookie(call.reply, publicBaseUrl);
        const ended = cookie === null ? null : await sessions.endByToken(cookie);
        if (ended) await record(call, "session.delete", ended.personId);
        setRefreshCookie(call.reply, null, publicBaseUrl);
        return {};
      },
    }),

    operation({
      method: "POST",
      path: "/v2/password",
      id: "acceptPasswordLink",
      tag: TAG,
      summary: "Set a new password with a reset link, and sign in",
      access: null,
      body: z.object({ link: LINK, password: NEW_PASSWORD }),
      response: SIGNED_IN,
      errors: ERRORS,
      handle: async (call) => {
        const { link, password } = call.body;
        const signedIn = await people.acceptLink(link, { password, ip: call.ip });
        await record(call, "password.update", signedIn.personId);
        return answer(call, signedIn);
      },
    }),

    operation({
      method: "POST",
      path: "/v2/password/forgotten",
      id: "forgotPassword",
      tag: TAG,
      summary: "Mail a password-reset link, if the address is verified; the answer never says whether it is",
      access: null,
      body: z.object({ email: EMAIL }),
      response: DONE,
      errors: ["not_found", "too_many_requests"],
      handle: ({ body, ip }) => {
        addresses.forgotten(body.email, ip);
        return {};
      },
    }),
  ];
}
