import type { ResponseHead } from "../../replicas/call.ts";
import { namedByConnection } from "../../kit/http/fields.ts";
import { hostCookie } from "./cookies.ts";
import { without } from "./request-headers.ts";

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
const DROPPED_ON_APP_HOST = new Set([...DROPPED, "clear-site-data"]);
const DROPPED_ON_SHARED_ORIGIN = new Set([...DROPPED_ON_APP_HOST, ...OF_ORIGIN]);

/** What only a head may say. */
const NEVER_TRAILERS = new Set(["content-length", "set-cookie"]);

/** The part of an exchange that decides which headers pass. */
type AnswerPlace = { readonly isOnAppHost: boolean };

/** A server's headers as its caller gets them. */
export type AnswerHeaders = {
  readonly headers: string[];
  /** The app says itself which pages may read the answer. */
  readonly hasCors: boolean;
};

/** The headers of a server's response as its caller gets them; `isChunked`: a body of unknown length comes in chunks. */
export function responseHeaders(
  { headers: given, length }: ResponseHead,
  isChunked: boolean,
  place: AnswerPlace,
): AnswerHeaders {
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
      // One is enough, and none where the end tells.
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
    return dropped.has(key) || NEVER_TRAILERS.has(key);
  });
}

function droppedAt({ isOnAppHost }: AnswerPlace): ReadonlySet<string> {
  return isOnAppHost ? DROPPED_ON_APP_HOST : DROPPED_ON_SHARED_ORIGIN;
}
