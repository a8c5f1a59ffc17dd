import type { ResponseHead } from "../../replicas/server/http-exchange.ts";
import { namedByConnection } from "../../kit/http/fields.ts";
import { setsOwnCookie, without } from "./request-headers.ts";

/** Of the app's own connection, or set by us. */
const DROPPED = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "transfer-encoding",
  "upgrade",
  "x-request-id",
]);

/** What only a head may say. */
const NEVER_TRAILERS = new Set(["content-length", "set-cookie"]);

/** A server's headers as its caller gets them. */
export type AnswerHeaders = {
  readonly headers: string[];
  /** The app says itself which pages may read the answer. */
  readonly hasCors: boolean;
};

/** The headers of a server's response as its caller gets them; `isChunked`: a body of unknown length comes in chunks. */
export function responseHeaders({ headers: given, length }: ResponseHead, isChunked: boolean): AnswerHeaders {
  const named = namedByConnection(given);
  const headers: string[] = [];
  let hasCors = false;
  let hasLength = false;
  for (let i = 0; i < given.length; i += 2) {
    const name = given[i] ?? "";
    const value = given[i + 1] ?? "";
    const key = name.toLowerCase();
    if (DROPPED.has(key) || named?.has(key)) continue;
    if (key === "content-length") {
      // One is enough, and none where the end tells.
      if (length === null || hasLength) continue;
      hasLength = true;
    } else if (key === "set-cookie" && setsOwnCookie(value)) continue;
    // Only chunks have something behind them.
    else if (key === "trailer" && (length !== null || !isChunked)) continue;
    else if (key === "access-control-allow-origin") hasCors = true;
    headers.push(name, value);
  }
  return { headers, hasCors };
}

/** The trailers of a server's response as its caller gets them: they say nothing that its headers may not. */
export function responseTrailers(trailers: readonly string[]): string[] {
  return without(trailers, (name) => {
    const key = name.toLowerCase();
    return DROPPED.has(key) || NEVER_TRAILERS.has(key);
  });
}
