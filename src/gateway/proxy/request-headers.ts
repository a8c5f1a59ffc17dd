import type { IncomingMessage } from "node:http";
import type { AddressRanges } from "../../kit/address-ranges.ts";
import { namedByConnection } from "../../kit/http/fields.ts";
import type { RequestHead } from "../request-head.ts";
import { PROTOCOL_HEADER, otherProtocols } from "../sockets/socket-token.ts";
import { otherCookies } from "./cookies.ts";

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
/** What only a head may say. */
const NEVER_TRAILERS = new Set(["authorization", "cookie", "expect", "host"]);
const FORWARDED = "x-forwarded-";

/** What decides over a request's headers besides themselves. */
export type ForwardedBy = {
  readonly runId: string;
  /** The path prefix of the app; empty on its own host. */
  readonly prefix: string;
  /** The address that the request came from. */
  readonly remote: string;
  /** Proxies whose word counts. */
  readonly trusted: AddressRanges;
  readonly passAuthorization: boolean;
  /** The caller waits for the app to ask for the body; if not, we have asked. */
  readonly passExpect: boolean;
  /** Nobody is there to read an encoded answer. */
  readonly isStored: boolean;
};

/** The headers of a request as a server app gets them. */
export function requestHeaders(request: IncomingMessage, head: RequestHead, by: ForwardedBy): string[] {
  const { rawHeaders } = request;
  const { remote } = by;
  // Not Node's dictionary: to make it costs more than all of this.
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

/**
 * The trailers of a request as a server app gets them. Some servers add them to the headers, where they could forge
 * what we have set.
 */
export function requestTrailers(trailers: readonly string[]): string[] {
  return without(trailers, (name) => {
    const key = plainKey(name);
    return DROPPED.has(key) || NEVER_TRAILERS.has(key) || key.startsWith(FORWARDED);
  });
}

/** A list of names and values without those whose name is to go. */
export function without(fields: readonly string[], isGone: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    if (!isGone(name)) kept.push(name, fields[i + 1] ?? "");
  }
  return kept;
}

/** A name as the least careful server reads it: to some `_` is `-`, by which one of ours could be forged. */
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
