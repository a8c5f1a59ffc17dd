import type { IncomingMessage } from "node:http";
import { headerOf } from "../../model/http-request.ts";
import type { RequestHead } from "../request-head.ts";
import type { AppRoute } from "../route.ts";

/** Of one connection and no other, or set anew by us. */
const DROPPED = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
  "content-length",
  "forwarded",
  "x-real-ip",
  "x-request-id",
  "x-webhook-secret",
  "x-disconnect",
]);
const FORWARDED = "x-forwarded-";
/** What cookies of ours begin with: the dashboard's may come along where both have one host. */
const OWN_COOKIE = "millrace_";

/** What decides over a request's headers besides themselves. */
export type ForwardedBy = {
  readonly runId: string;
  readonly route: AppRoute;
  /** The connection comes from a proxy whose word counts. */
  readonly isTrusted: boolean;
  readonly passAuthorization: boolean;
  /** The caller waits for the app to ask for the body; if not, we have asked. */
  readonly passExpect: boolean;
  /** Nobody is there to read an encoded answer. */
  readonly isStored: boolean;
};

/** The headers of a request as a server app gets them. */
export function requestHeaders(request: IncomingMessage, head: RequestHead, by: ForwardedBy): string[] {
  const { rawHeaders, socket } = request;
  // Not Node's dictionary: to make it costs more than all of this.
  const named = namedByConnection(headerOf(rawHeaders, "connection"));
  const headers: string[] = [];
  let host = "";
  let proto = "http";
  let prefix = "";
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    const lower = name.toLowerCase();
    // Some servers take one for the other, so that one of ours could be forged.
    const key = lower.includes("_") ? lower.replaceAll("_", "-") : lower;
    if (DROPPED.has(key) || named?.has(key)) continue;
    if (key.startsWith(FORWARDED)) {
      if (!by.isTrusted) continue;
      if (key === "x-forwarded-host") host = value;
      else if (key === "x-forwarded-proto") proto = value;
      else if (key === "x-forwarded-prefix") prefix = value;
      continue;
    }
    if (key === "host") host ||= value;
    else if (key === "authorization" && !by.passAuthorization) continue;
    else if (key === "expect" && !by.passExpect) continue;
    else if (key === "accept-encoding" && by.isStored) continue;
    else if (key === "cookie" && value.includes(OWN_COOKIE)) {
      const others = withoutOwn(value);
      if (others !== "") headers.push(name, others);
      continue;
    }
    headers.push(name, value);
  }
  const { projectId, appName } = by.route;
  const remote = socket.remoteAddress ?? "";
  const chain = by.isTrusted && head.forwardedFor !== null ? `${head.forwardedFor}, ${remote}` : remote;
  // HTTP/1.0 may come without a Host; a server of HTTP/1.1 wants one.
  if (host === "") headers.push("host", "localhost");
  headers.push("x-request-id", by.runId, "x-forwarded-for", chain, "x-forwarded-proto", proto);
  headers.push("x-forwarded-host", host, "x-forwarded-prefix", `${prefix}/v4/${projectId}/${appName}`);
  return headers;
}

/** Headers that the caller's own connection alone is to know of; null for the usual ones. */
export function namedByConnection(value: string | null): ReadonlySet<string> | null {
  if (value === null || value === "keep-alive" || value === "close") return null;
  return new Set(value.split(",").map((name) => name.trim().toLowerCase()));
}

function withoutOwn(cookies: string): string {
  return cookies
    .split(";")
    .map((cookie) => cookie.trim())
    .filter((cookie) => !cookie.startsWith(OWN_COOKIE))
    .join("; ");
}

/** Whether a `Set-Cookie` of an app would set a cookie of ours. */
export function setsOwnCookie(value: string): boolean {
  return value.trimStart().startsWith(OWN_COOKIE);
}

/** What follows the app's own address: a path in any case. */
export function pathOf(url: string, { projectId, appName }: AppRoute): string {
  const path = url.slice(`/v4/${projectId}/${appName}`.length);
  return path.startsWith("/") ? path : `/${path}`;
}
