import type { IncomingMessage } from "node:http";
import type { AddressRanges } from "../../kit/ip-addresses.ts";
import { namedByConnection } from "../../kit/http/fields.ts";
import type { RequestHead } from "../request-head.ts";
import { otherProtocols, PROTOCOL_HEADER } from "./socket-token.ts";
import type { ResponseHead } from "../../kit/http/response-parser.ts";

/** Headers of a single connection, and the id that the service sets. */
const OF_CONNECTION = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "transfer-encoding",
  "upgrade",
  "x-request-id",
];
/** Not passed to the app's server: these, and others that the service sets anew. */
const DROPPED = new Set([
  ...OF_CONNECTION,
  "proxy-authorization",
  "te",
  "http2-settings",
  "content-length",
  "forwarded",
  "x-real-ip",
  "x-webhook-secret",
  "x-disconnect",
  "traceparent",
  "tracestate",
]);
/** Allowed in heads only. */
const NEVER_TRAILERS = new Set(["authorization", "cookie", "expect", "host"]);
const FORWARDED = "x-forwarded-";

/** What else decides which headers a server gets. */
type ForwardedBy = {
  readonly runId: string;
  /** The path prefix of the app; empty on its own host. */
  readonly prefix: string;
  /** The address that the request came from. */
  readonly remote: string;
  /** Proxies whose `X-Forwarded-*` headers are believed. */
  readonly trusted: AddressRanges;
  readonly passAuthorization: boolean;
  /** The caller waits for the app to ask for the body; if not, we have asked. */
  readonly passExpect: boolean;
  /** No caller is left that could decode an answer. */
  readonly isStored: boolean;
};

/** The headers of a request as a server app gets them. */
export function requestHeaders(request: IncomingMessage, head: RequestHead, by: ForwardedBy): string[] {
  const { rawHeaders } = request;
  const { remote } = by;
  // Not Node's dictionary: making it costs more than all of this.
  const named = namedByConnection(rawHeaders);
  const headers: string[] = [];
  let isTrusted: boolean | null = null;
  let host = "";
  let proto = "http";
  let prefix = "";
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    const key = plainKey(name);
    if (DROPPED.has(key) || named?.has(key)) continue;
    if (key.startsWith(FORWARDED)) {
      isTrusted ??= by.trusted.includes(remote);
      if (!isTrusted) continue;
      if (key === "x-forwarded-host") host = value;
      else if (key === "x-forwarded-proto") proto = value;
      else if (key === "x-forwarded-prefix") prefix = value;
      continue;
    }
    if (key === "host") host ||= value;
    else if (key === "authorization" && !by.passAuthorization) continue;
    else if (key === "expect" && !by.passExpect) continue;
    else if (key === "accept-encoding" && by.isStored) continue;
    else if (key === "cookie") {
      pushUnlessEmpty(headers, name, otherCookies(value));
      continue;
    } else if (key === PROTOCOL_HEADER) {
      // A token may be among them, whatever the app makes of the request.
      pushUnlessEmpty(headers, name, otherProtocols(value));
      continue;
    }
    headers.push(name, value);
  }
  const chain = isTrusted && head.forwardedFor !== null ? `${head.forwardedFor}, ${remote}` : remote;
  // HTTP/1.0 may come without a Host; a server of HTTP/1.1 wants one.
  if (host === "") headers.push("host", "localhost");
  headers.push("x-request-id", by.runId, "x-forwarded-for", chain, "x-forwarded-proto", proto);
  headers.push("x-forwarded-host", host);
  pushUnlessEmpty(headers, "x-forwarded-prefix", prefix + by.prefix);
  return headers;
}

/** A request's trailers for a server app. Some servers add them to the headers, where they could forge ours. */
export function requestTrailers(trailers: readonly string[]): string[] {
  return without(trailers, (name) => {
    const key = plainKey(name);
    return DROPPED.has(key) || NEVER_TRAILERS.has(key) || key.startsWith(FORWARDED);
  });
}

/** A list of names and values without the names that `isGone` picks. */
function without(fields: readonly string[], isGone: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    if (!isGone(name)) kept.push(name, fields[i + 1] ?? "");
  }
  return kept;
}

/** A name as the least careful server reads it: some take `_` for `-`, so a header of ours could be forged. */
function plainKey(name: string): string {
  const lower = name.toLowerCase();
  return lower.includes("_") ? lower.replaceAll("_", "-") : lower;
}

function pushUnlessEmpty(headers: string[], name: string, value: string): void {
  if (value !== "") headers.push(name, value);
}

/** The target below a path prefix; always begins with a slash. */
export function pathBelow(url: string, prefix: string): string {
  const path = url.slice(prefix.length);
  return path.startsWith("/") ? path : `/${path}`;
}

/**
 * Headers that browsers apply to a whole origin. On the shared origin they would affect other apps: a service worker for
 * all paths, reports about other pages, a redirection to another server, requests held back for a bound session.
 */
const OF_ORIGIN = [
  "service-worker-allowed",
  "alt-svc",
  "nel",
  "report-to",
  "reporting-endpoints",
  "strict-transport-security",
  "use-as-dictionary",
  "accept-ch",
  "critical-ch",
  "set-login",
  "secure-session-registration",
  "sec-session-registration",
];
/** `Clear-Site-Data` clears the cookies of all hosts of the site, which may include the dashboard and other apps. */
const DROPPED_ON_APP_HOST = new Set([...OF_CONNECTION, "clear-site-data"]);
const DROPPED_ON_SHARED_ORIGIN = new Set([...DROPPED_ON_APP_HOST, ...OF_ORIGIN]);

/** Allowed in heads only. */
const NEVER_RESPONSE_TRAILERS = new Set(["content-length", "set-cookie"]);

type AnswerPlace = { readonly isOnAppHost: boolean };

/**
 * The headers of a server's response as its caller gets them. `isChunked`: a body of unknown length comes in chunks.
 * `hasCors`: the app says itself which pages may read the answer.
 */
export function responseHeaders(
  { headers: given, length }: ResponseHead,
  isChunked: boolean,
  place: AnswerPlace,
): { readonly headers: string[]; readonly hasCors: boolean } {
  const named = namedByConnection(given);
  const dropped = droppedAt(place);
  const headers: string[] = [];
  let hasCors = false;
  let hasLength = false;
  for (let i = 0; i < given.length; i += 2) {
    const name = given[i] ?? "";
    let value: string | null = given[i + 1] ?? "";
    const key = name.toLowerCase();
    if (dropped.has(key) || named?.has(key)) continue;
    if (key === "content-length") {
      // Only one, and none if the end of the connection ends the body.
      if (length === null || hasLength) continue;
      hasLength = true;
    } else if (key === "set-cookie") value = hostCookie(value);
    // Only chunks have something behind them.
    else if (key === "trailer" && (length !== null || !isChunked)) continue;
    else if (key === "access-control-allow-origin") hasCors = true;
    if (value !== null) headers.push(name, value);
  }
  return { headers, hasCors };
}

/** The trailers of a server's response as its caller gets them: they say nothing that its headers may not. */
export function responseTrailers(trailers: readonly string[], place: AnswerPlace): string[] {
  const dropped = droppedAt(place);
  return without(trailers, (name) => {
    const key = name.toLowerCase();
    return dropped.has(key) || NEVER_RESPONSE_TRAILERS.has(key);
  });
}

function droppedAt({ isOnAppHost }: AnswerPlace): ReadonlySet<string> {
  return isOnAppHost ? DROPPED_ON_APP_HOST : DROPPED_ON_SHARED_ORIGIN;
}

/**
 * Matches a cookie of the service in a Cookie or Set-Cookie header. The dashboard's cookie reaches apps if both have the
 * same host. A nameless cookie is sent back as its value alone: `=millrace_x=1` comes back as `millrace_x=1`.
 */
const OWN = /^[\s=]*(?:__(?:host|secure)-)?millrace_/i;
const MAY_BE_OWN = /millrace_/i;
const DOMAIN = /^\s*domain\s*(?:=|$)/i;
const MAY_HAVE_DOMAIN = /domain/i;

/** Removes the service's cookies from a Cookie header; may return an empty string. */
export function otherCookies(cookies: string): string {
  if (!MAY_BE_OWN.test(cookies)) return cookies;
  return cookies
    .split(";")
    .map((cookie) => cookie.trim())
    .filter((cookie) => !OWN.test(cookie))
    .join("; ");
}

/** Removes `Domain` from a `Set-Cookie`, so that only this host gets the cookie; null for a cookie of the service's. */
export function hostCookie(value: string): string | null {
  if (OWN.test(value)) return null;
  if (!MAY_HAVE_DOMAIN.test(value)) return value;
  const [pair = "", ...attributes] = value.split(";");
  return [pair, ...attributes.filter((attribute) => !DOMAIN.test(attribute))].join(";");
}
