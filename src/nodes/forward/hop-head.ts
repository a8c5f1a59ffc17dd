import type { IncomingMessage, ServerResponse } from "node:http";
import { isIP } from "node:net";
import { fieldLines } from "../../kit/http/fields.ts";
import type { HostedApp } from "../../model/names.ts";

/** What a request of one node to another is for: one of the two listeners of a service, or the node itself. */
export type Purpose = "api" | "management" | "node";

/** What a node says about a request that it forwards. */
export type Hop = {
  readonly purpose: Purpose;
  /** The address that its connection came from, a proxy's perhaps. */
  readonly remote: string;
  readonly httpVersion: "1.0" | "1.1";
  /** Its body is sent only when asked for, without the caller's knowledge. */
  readonly isHeld: boolean;
  /** The app whose host the request came to; null on the shared origin. Nodes may have different values of `app_hosts`. */
  readonly hostOf: HostedApp | null;
};

/** The first header of every request between nodes. Only the first counts: a caller's header of that name follows it. */
const HOP_HEADER = "x-millrace-for";
const HOP =
  /^(api|management|node) (\S{1,64}) (1\.[01]) (plain|held)(?: host (p-[a-z0-9]{1,40})\/([a-z0-9-]{1,63}))?$/;
const NO_ADDRESS = "-";
/** A node that does not have the app answers with this as its first header, which no app can write. */
export const MOVED_HEADER = "x-millrace-moved";
export const MOVED_STATUS = 421;
/** The first header of an event stream of the service's own, whose chunks are whole messages. No app can write it. */
export const EVENTS_HEADER = "x-millrace-events";
/** The first trailer of such a stream that its node aborted: the caller's connection ends without the final chunk. */
export const BROKEN_OFF_TRAILER = "x-millrace-broken-off";

/** Headers of one connection. */
const OF_CONNECTION = new Set(["keep-alive", "proxy-connection", "te", "transfer-encoding"]);
/** Values of a Connection header that are about the connection itself, not other headers. */
const OPTIONS = new Set(["close", "keep-alive", "upgrade", ""]);
const EXPECT = "expect";
const LENGTH = "content-length";

/** What a request's next head depends on besides the request. */
export type HopHow = Pick<Hop, "purpose" | "remote" | "hostOf"> & {
  readonly isUpgrade: boolean;
  /** How long its body is, if it has been read; else null. */
  readonly readBytes: number | null;
  /** A larger body is held. */
  readonly littleBytes: number;
};

/** A request as it goes to another node, without its last empty line. */
export type HopHead = {
  readonly text: string;
  /** Of its body; null for one in chunks, 0 for none. */
  readonly bodyBytes: number | null;
  /** The caller waits to be asked for the body. */
  readonly isAwaited: boolean;
};

/** The head of a request for its next hop: as it came, but for what belongs to the caller's own connection. */
export function hopHead(
  request: IncomingMessage,
  { purpose, remote, hostOf, isUpgrade, readBytes, littleBytes }: HopHow,
): HopHead {
  const { method = "GET", url = "/", rawHeaders, httpVersion } = request;
  const headers: string[] = [];
  let bodyBytes: number | null = 0;
  let isAwaited = false;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    const key = name.toLowerCase();
    if (readBytes !== null && (key === LENGTH || key === EXPECT)) continue;
    if (key === LENGTH) bodyBytes = Number(value);
    else if (key === EXPECT) isAwaited = httpVersion === "1.1";
    else if (key === "transfer-encoding") bodyBytes = null;
    if (key === "upgrade" && isUpgrade) headers.push("connection", key, key, value);
    else if (key === "connection") pushNamed(headers, value);
    else if (key !== "upgrade" && !OF_CONNECTION.has(key)) headers.push(name, value);
  }
  if (readBytes !== null) headers.push(LENGTH, String(readBytes));
  else if (bodyBytes === null) headers.push("transfer-encoding", "chunked");
  const isLittle = readBytes !== null || (bodyBytes !== null && bodyBytes <= littleBytes);
  const isHeld = !isAwaited && !isLittle;
  const told = [purpose, remote || NO_ADDRESS, httpVersion, isHeld ? "held" : "plain"];
  if (hostOf) told.push("host", `${hostOf.projectId}/${hostOf.appName}`);
  const hop = `${HOP_HEADER}: ${told.join(" ")}\r\n`;
  const expect = isHeld ? `${EXPECT}: 100-continue\r\n` : "";
  const text = `${method} ${url} HTTP/1.1\r\n${hop}${expect}${fieldLines(headers)}`;
  return { text, bodyBytes, isAwaited };
}

/**
 * Headers that are named as hop-by-hop are forwarded with their names: the next node reads the request as if it were the
 * first, and without a header that frames the body it would read the body as another request.
 */
function pushNamed(headers: string[], value: string): void {
  const named = value.split(",").filter((each) => !OPTIONS.has(each.trim().toLowerCase()));
  if (named.length > 0) headers.push("connection", named.join(","));
}

/** The head of a node's own request. */
export function ownHead(path: string, bodyBytes: number): string {
  return (
    `POST ${path} HTTP/1.1\r\n${HOP_HEADER}: node ${NO_ADDRESS} 1.1 plain\r\n` +
    `content-type: application/json\r\ncontent-length: ${bodyBytes}\r\n\r\n`
  );
}

/** Tells the forwarding node to look the app up again; the request was not started. */
export function answerMoved(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(MOVED_STATUS, [MOVED_HEADER, "1", "content-length", "0"]).end();
  if (!request.complete) request.resume();
}

/** Reads and removes what the forwarding node added: the request is as it came there. */
export function takeHop(request: IncomingMessage): Hop | null {
  const { rawHeaders, headers } = request;
  const [name = "", value = ""] = rawHeaders;
  const said = (name === HOP_HEADER && HOP.exec(value)) || [];
  const [, purpose, remote = NO_ADDRESS, httpVersion, held, projectId, appName] = said;
  if (remote !== NO_ADDRESS && isIP(remote) === 0) return null;
  const isHeld = held === "held";
  if (purpose === undefined || (isHeld && rawHeaders[2] !== EXPECT)) return null;
  rawHeaders.splice(0, isHeld ? 4 : 2);
  delete headers[HOP_HEADER];
  if (isHeld) delete headers[EXPECT];
  if (httpVersion === "1.0") {
    request.httpVersion = httpVersion;
    request.httpVersionMinor = 0;
  }
  return {
    purpose: purpose as Purpose,
    remote: remote === NO_ADDRESS ? "" : remote,
    httpVersion: httpVersion === "1.0" ? "1.0" : "1.1",
    isHeld,
    hostOf: projectId === undefined || appName === undefined ? null : { projectId, appName },
  };
}
