/** A subprotocol that is a token, for pages: a browser lets them set no header. */
const BEARER = "millrace.bearer.";
/** What a page offers beside it, to be chosen where the app chooses nothing. */
export const OWN_PROTOCOL = "millrace";
export const PROTOCOL_HEADER = "sec-websocket-protocol";

/** Finds the token of a handshake: in its header, or among its subprotocols, or in its query. */
export function readSocketToken(
  authorization: string | null,
  rawHeaders: readonly string[],
  target: string,
): { readonly authorization: string | null; readonly target: string } {
  if (authorization !== null) return { authorization, target };
  const asProtocol = offeredIn(rawHeaders)
    .find((name) => name.startsWith(BEARER))
    ?.slice(BEARER.length);
  if (asProtocol !== undefined) return { authorization: `Bearer ${asProtocol}`, target };
  const inQuery = takeFromQuery(target);
  const { token } = inQuery;
  return { authorization: token === null ? null : `Bearer ${token}`, target: inQuery.target };
}

/** Of the subprotocols in a header, those that are not ours; empty where there are no others. */
export function otherProtocols(value: string): string {
  const others = protocolsOf(value).filter((each) => each !== OWN_PROTOCOL && !each.startsWith(BEARER));
  return others.join(", ");
}

/** Whether a handshake offers our own subprotocol. */
export function offersOwn(rawHeaders: readonly string[]): boolean {
  return offeredIn(rawHeaders).includes(OWN_PROTOCOL);
}

/** The subprotocols of a handshake, which may stand in more than one header. */
function offeredIn(rawHeaders: readonly string[]): string[] {
  return rawHeaders.flatMap((name, at) =>
    at % 2 === 0 && name.toLowerCase() === PROTOCOL_HEADER ? protocolsOf(rawHeaders[at + 1] ?? "") : [],
  );
}

function protocolsOf(value: string): string[] {
  return value.split(",").flatMap((each) => each.trim() || []);
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
