import { isIP } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import { CHALLENGE } from "../../identity/principal.ts";
import { AppError } from "../../model/errors.ts";
import { baseUrlOf } from "../api/addresses.ts";

type RefreshCookie = { readonly name: string; readonly path: string; readonly isSecure: boolean };

const NAME = "millrace_refresh";
const SESSION_PATH = "/v2/session";
const MAX_AGE_SECONDS = 30 * 86_400;
const VALUE = /^[\w-]+$/;
/** Without the blanks that `trim` removes but browsers take for part of a name: to them such a name has no prefix. */
const PLAIN = /^[\t\x20-\x7e]*$/;
/** All paths whose cookies browsers send to the session routes: a page on another port may have used any of them. */
const SENT_ALONG = ["/", "/v2", "/v2/", SESSION_PATH, `${SESSION_PATH}/`, `${SESSION_PATH}/refresh`];
/** How many parent domains to clear; enough for any real host. */
const MAX_DOMAINS = 4;

/**
 * The refresh cookie for a base URL. Under HTTPS it has the prefix `__Host-`: browsers then refuse to set it from other
 * hosts, without TLS, or with another path than `/`. Because of that path it is also sent to apps on the same host, where
 * the gateway removes it. Without HTTPS, the prefix cannot be used, and the path keeps the cookie away from apps.
 */
export function refreshCookieAt(baseUrl: string): RefreshCookie {
  return baseUrl.startsWith("https:")
    ? { name: `__Host-${NAME}`, path: "/", isSecure: true }
    : { name: NAME, path: SESSION_PATH, isSecure: false };
}

/**
 * The refresh token in a request's cookie; null if there is none. Throws `unauthorized` if there are two, because one of
 * them was planted and it is impossible to tell which; the answer deletes both.
 */
export function readRefreshCookie(reply: FastifyReply, publicBaseUrl: string | null): string | null {
  const { request } = reply;
  const cookie = refreshCookieAt(baseUrlOf(request, publicBaseUrl));
  const values = (request.headers.cookie ?? "").split(";").flatMap((pair) => {
    const [name = "", value = ""] = pair.split("=", 2);
    return PLAIN.test(name) && name.trim() === cookie.name ? [value.trim()] : [];
  });
  if (values.length > 1) {
    reply.header("set-cookie", forgetAll(cookie, request.hostname));
    const message =
      "The request has two refresh cookies, so one of them was set by another page. Both have been deleted: sign in again.";
    throw new AppError("unauthorized", { message, headers: CHALLENGE });
  }
  const [value = ""] = values;
  return VALUE.test(value) ? value : null;
}

/** Stores a refresh token in the browser, out of reach of scripts; null deletes it. */
export function setRefreshCookie(reply: FastifyReply, token: string | null, publicUrl: string | null): void {
  reply.header("set-cookie", cookieText(refreshCookieAt(baseUrlOf(reply.request, publicUrl)), token));
}

/** Throws `forbidden` for a request with this cookie by a page of another site. */
export function refuseOtherSites(request: FastifyRequest, publicBaseUrl: string | null): void {
  const { origin } = request.headers;
  if (origin === undefined || origin === new URL(baseUrlOf(request, publicBaseUrl)).origin) return;
  throw new AppError("forbidden", { message: "Pages of other sites may not use this cookie." });
}

function cookieText({ name, path, isSecure }: RefreshCookie, token: string | null): string {
  const maxAge = token === null ? 0 : MAX_AGE_SECONDS;
  const cookie = `${name}=${token ?? ""}; Path=${path}; Max-Age=${maxAge}; HttpOnly; SameSite=Strict`;
  return isSecure ? `${cookie}; Secure` : cookie;
}

/** Set-Cookie headers that delete every cookie of that name which the browser may have sent. */
function forgetAll(cookie: RefreshCookie, host: string): string[] {
  const forgotten = cookieText(cookie, null);
  // Browsers store a partitioned cookie of the same name separately.
  if (cookie.isSecure) return [forgotten, `${forgotten}; Partitioned`];
  return SENT_ALONG.flatMap((path) => {
    const own = cookieText({ ...cookie, path }, null);
    return [own, ...domainsOf(host).map((domain) => `${own}; Domain=${domain}`)];
  });
}

/** The host and its parent domains: a page may have set a cookie for any of them. */
function domainsOf(host: string): string[] {
  if (isIP(host) !== 0 || host.startsWith("[")) return [];
  const labels = host.split(".");
  return labels
    .slice(0, -1)
    .map((_, at) => labels.slice(at).join("."))
    .slice(-MAX_DOMAINS);
}
