import type { FastifyReply, FastifyRequest } from "fastify";
import { AppError } from "../model/errors.ts";
import { baseUrlOf } from "./api/base-url.ts";

/** The cookie with a browser's refresh token; browsers send it to this path and nowhere else. */
export const REFRESH_COOKIE = { name: "millrace_refresh", path: "/v2/session" } as const;
const MAX_AGE_SECONDS = 30 * 86_400;
const VALUE = /^[\w-]+$/;

/** The refresh token in a request's cookie; null where there is none. */
export function readRefreshCookie({ headers }: FastifyRequest): string | null {
  for (const pair of (headers.cookie ?? "").split(";")) {
    const [name = "", value = ""] = pair.trim().split("=", 2);
    if (name === REFRESH_COOKIE.name && VALUE.test(value)) return value;
  }
  return null;
}

/** Has the browser keep a refresh token, out of reach of scripts; null makes it forget the one it has. */
export function setRefreshCookie(
  reply: FastifyReply,
  token: string | null,
  publicBaseUrl: string | null,
): void {
  const isSecure = baseUrlOf(reply.request, publicBaseUrl).startsWith("https:");
  const parts = [
    `${REFRESH_COOKIE.name}=${token ?? ""}`,
    `Path=${REFRESH_COOKIE.path}`,
    `Max-Age=${token === null ? 0 : MAX_AGE_SECONDS}`,
    "HttpOnly",
    "SameSite=Strict",
  ];
  reply.header("set-cookie", [...parts, ...(isSecure ? ["Secure"] : [])].join("; "));
}

/** Throws `forbidden` for a request that the page of another site makes with the cookie of this one. */
export function refuseOtherSites(request: FastifyRequest, publicBaseUrl: string | null): void {
  const { origin } = request.headers;
  if (origin === undefined || origin === new URL(baseUrlOf(request, publicBaseUrl)).origin) return;
  throw new AppError("forbidden", { message: "Pages of other sites may not use this cookie." });
}
