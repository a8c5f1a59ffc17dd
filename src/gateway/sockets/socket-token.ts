import { headerOf } from "../../model/http-request.ts";

/** A subprotocol that is a token, for pages: a browser lets them set no header. */
const BEARER = "millrace.bearer.";
/** What a page offers beside it, to be chosen where the app chooses nothing. */
export const OWN_PROTOCOL = "millrace";
const PROTOCOL_HEADER = "sec-websocket-protocol";

/** Where a handshake may have its token, and what the app is to see of it. */
export type SocketToken = {
  /** As a header would have it; null where there is none. */
  readonly authorization: string | null;
  /** Path and query, without a token. */
  readonly target: string;
};

/**
 * Finds the token of a handshake: in its header, among its subprotocols, or in its query, in this order. A query that
 * is not asked for it is the app's own.
 */
export function readSocketToken(
  authorization: string | null,
  rawHeaders: readonly string[],
  target: string,
): SocketToken {
  if (authorization !== null) return { authorization, target };
  const offered = protocolsOf(headerOf(rawHeaders, PROTOCOL_HEADER));
  const asProtocol = offered.find((name) => name.startsWith(BEARER))?.slice(BEARER.length);
  if (asProtocol !== undefined) return { authorization: `Bearer ${asProtocol}`, target };
  const inQuery = takeFromQuery(target);
  return {
    authorization: inQuery.token === null ? null : `Bearer ${inQuery.token}`,
    target: inQuery.target,
  };
}

/** Headers of a handshake without the subprotocols that are ours. */
export function withoutOwnProtocols(headers: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? "";
    const value = headers[i + 1] ?? "";
    if (name.toLowerCase() !== PROTOCOL_HEADER) {
      kept.push(name, value);
      continue;
    }
    const others = protocolsOf(value).filter((each) => each !== OWN_PROTOCOL && !each.startsWith(BEARER));
    if (others.length > 0) kept.push(name, others.join(", "));
  }
  return kept;
}

/** Whether a handshake offers our own subprotocol. */
export function offersOwn(rawHeaders: readonly string[]): boolean {
  return protocolsOf(headerOf(rawHeaders, PROTOCOL_HEADER)).includes(OWN_PROTOCOL);
}

function protocolsOf(value: string | null): string[] {
  return (value ?? "").split(",").flatMap((each) => each.trim() || []);
}

function takeFromQuery(target: string): { readonly token: string | null; readonly target: string } {
  const mark = target.indexOf("?");
  if (mark === -1) return { token: null, target };
  const parts = target.slice(mark + 1).split("&");
  const isToken = (part: string): boolean => part.startsWith("token=");
  const token = parts.find(isToken);
  if (token === undefined) return { token: null, target };
  const others = parts.filter((part) => !isToken(part));
  const path = target.slice(0, mark);
  return {
    token: new URLSearchParams(token).get("token"),
    target: others.length === 0 ? path : `${path}?${others.join("&")}`,
  };
}
