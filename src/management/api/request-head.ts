import type { IncomingMessage } from "node:http";
import { isHost, isPlainlyChunked, labelBelow } from "../../kit/http/fields.ts";
import { AppError } from "../../model/errors.ts";
import type { ErrorCode } from "../../model/errors.ts";

const MAX_HEADERS = 100;
/** Of these Node would keep one, and a proxy in front perhaps another. */
const SINGLE: ReadonlySet<string> = new Set([
  "host",
  "authorization",
  "content-type",
  "origin",
  "transfer-encoding",
]);

/**
 * Refuses a request whose head leaves open where it goes, whose it is or where its body ends. The connection is
 * closed with the answer: what follows on it could be anybody's.
 */
export function requireClearHead({ rawHeaders, url = "", httpVersion }: IncomingMessage): void {
  if (!url.startsWith("/")) throw closing("bad_request", "The request target must be a path.");
  if (rawHeaders.length > MAX_HEADERS * 2) throw closing("headers_too_large");
  const seen = new Map<string, string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? "";
    if (!SINGLE.has(name)) continue;
    if (seen.has(name)) throw closing("bad_request", `The ${name} header may be given only once.`);
    seen.set(name, rawHeaders[at + 1] ?? "");
  }
  if (!isHost(seen.get("host") ?? "")) throw closing("bad_request", "The Host header must name a host.");
  const encoding = seen.get("transfer-encoding");
  if (encoding !== undefined && !isPlainlyChunked(encoding, httpVersion)) {
    throw closing("bad_request", "The only transfer encoding accepted is chunked, over HTTP/1.1.");
  }
}

/** Refuses requests to app hosts: there, the dashboard would share its cookies with an app. */
export function refuseAppHost({ headers }: IncomingMessage, appHosts: string | null): void {
  if (appHosts === null || labelBelow(headers.host ?? "", appHosts) === null) return;
  const message = "This host belongs to apps (MILLRACE_APP_HOSTS). Use another host for the management API.";
  throw new AppError("misdirected", { message });
}

/** A refusal that ends its connection. */
export function closing(code: ErrorCode, message?: string): AppError {
  return new AppError(code, { ...(message !== undefined && { message }), headers: { connection: "close" } });
}
