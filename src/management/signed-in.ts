import type { FastifyReply } from "fastify";
import { z } from "zod";
import type { SignedIn } from "../identity/sessions.ts";
import type { SignedInRecord } from "../shapes/people.ts";
import { timestamp } from "../shapes/timestamp.ts";
import { setRefreshCookie } from "./refresh-cookie.ts";

/** The address somebody signs in with. */
export const EMAIL = z.email().max(254);
/** A password as it is chosen. */
export const NEW_PASSWORD = z.string().min(10).max(200);
/** A password as it is checked: of any length that somebody may once have chosen. */
export const PASSWORD = z.string().max(1000);
/** The secret part of a link. */
export const LINK = z.string().min(1).max(1000);

/** Answers a sign-in of any kind. */
export function answerSignedIn(
  reply: FastifyReply,
  { personId, accessToken, expiresAt, refreshToken }: SignedIn,
  publicBaseUrl: string | null,
): SignedInRecord {
  if (refreshToken !== null) setRefreshCookie(reply, refreshToken, publicBaseUrl);
  reply.header("cache-control", "no-store");
  return { personId, accessToken, expiresAt: timestamp(expiresAt) };
}
