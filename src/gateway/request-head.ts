import type { IncomingMessage } from "node:http";
import { isHost, isPlainlyChunked } from "../kit/http/fields.ts";
import { AppError } from "../model/errors.ts";

/** The headers that the run path reads. */
export class RequestHead {
  /** Null only for HTTP/1.0 without a Host header. */
  host: string | null = null;
  authorization: string | null = null;
  contentType: string | null = null;
  contentEncoding: string | null = null;
  contentLength: string | null = null;
  origin: string | null = null;
  xDisconnect: string | null = null;
  accept: string | null = null;
  acceptEncoding: string | null = null;
  prefer: string | null = null;
  lastEventId: string | null = null;
  idempotencyKey: string | null = null;
  webhookSecret: string | null = null;
  /** All values, joined. `tracestate` is read only where there is one: other headers have its length. */
  traceparent: string | null = null;
  /**
   * `X-Fal-Queue-Priority`, `X-Fal-Request-Timeout` and `Cancel-After`, as other services name what a run asks of the queue.
   * All values, joined: only an async call is refused for two of them.
   */
  queuePriority: string | null = null;
  requestTimeout: string | null = null;
  cancelAfter: string | null = null;
  /** All values, joined. Only what trusted proxies have added is believed. */
  forwardedFor: string | null = null;
  isChunked = false;
  /** The caller waits for `100 Continue` before it sends the body; HTTP/1.0 has no such request. */
  isHeldBack = false;
}

const MAX_HEADERS = 100;
const MAX_TARGET_CHARS = 8192;
const ORIGIN_FORM = /^\/(?!\/)/;

/** Reads the head once from the raw list: Node's dictionary would drop a second Host or Authorization. */
export function readHead(request: IncomingMessage): RequestHead {
  const { rawHeaders, url = "", httpVersion, httpVersionMajor } = request;
  if (httpVersionMajor !== 1) throw badRequest("Use HTTP/1.1.");
  if (url.length > MAX_TARGET_CHARS) throw new AppError("uri_too_long");
  if (!ORIGIN_FORM.test(url))
    throw url.startsWith("//") ? new AppError("not_found") : badRequest("The request target must be a path.");
  if (rawHeaders.length > MAX_HEADERS * 2) throw new AppError("headers_too_large");
  const head = new RequestHead();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    // By length first: we need few of the headers, and lower-casing each would cost more than the rest.
    switch (name.length) {
      case 4:
        if (name.toLowerCase() === "host") head.host = once(head.host, value, name);
        break;
      case 6:
        if (name.toLowerCase() === "origin") head.origin = once(head.origin, value, name);
        else if (name.toLowerCase() === "expect") head.isHeldBack = httpVersion === "1.1";
        else if (name.toLowerCase() === "accept") head.accept = joined(head.accept, value);
        else if (name.toLowerCase() === "prefer") head.prefer = joined(head.prefer, value);
        break;
      case 11:
        if (name.toLowerCase() === "traceparent") head.traceparent = joined(head.traceparent, value);
        break;
      case 12:
        if (name.toLowerCase() === "content-type") head.contentType = once(head.contentType, value, name);
        else if (name.toLowerCase() === "x-disconnect") head.xDisconnect = value.trim().toLowerCase();
        else if (name.toLowerCase() === "cancel-after")
          head.cancelAfter = joined(head.cancelAfter, value.trim());
        break;
      case 13:
        if (name.toLowerCase() === "authorization")
          head.authorization = once(head.authorization, value, name);
        else if (name.toLowerCase() === "last-event-id")
          head.lastEventId = once(head.lastEventId, value, name);
        break;
      case 14:
        if (name.toLowerCase() === "content-length") head.contentLength = value;
        break;
      case 15:
        if (name.toLowerCase() === "accept-encoding")
          head.acceptEncoding = joined(head.acceptEncoding, value);
        else if (name.toLowerCase() === "idempotency-key")
          head.idempotencyKey = once(head.idempotencyKey, value, name);
        else if (name.toLowerCase() === "x-forwarded-for")
          head.forwardedFor = joined(head.forwardedFor, value);
        break;
      case 16:
        if (name.toLowerCase() === "content-encoding") head.contentEncoding = value.trim().toLowerCase();
        else if (name.toLowerCase() === "x-webhook-secret")
          head.webhookSecret = once(head.webhookSecret, value, name);
        break;
      case 17:
        if (name.toLowerCase() === "transfer-encoding") {
          if (head.isChunked || !isPlainlyChunked(value, httpVersion))
            throw badRequest("The only transfer encoding accepted is chunked, over HTTP/1.1.");
          head.isChunked = true;
        }
        break;
      case 20:
        if (name.toLowerCase() === "x-fal-queue-priority")
          head.queuePriority = joined(head.queuePriority, value.trim());
        break;
      case 21:
        if (name.toLowerCase() === "x-fal-request-timeout")
          head.requestTimeout = joined(head.requestTimeout, value.trim());
        break;
      default:
    }
  }
  if (head.host === null ? httpVersion === "1.1" : !isHost(head.host))
    throw badRequest("The Host header must name a host.");
  return head;
}

/** All values of the `tracestate` header, joined. */
export function tracestateOf({ rawHeaders }: IncomingMessage): string | null {
  let all: string | null = null;
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() === "tracestate") all = joined(all, rawHeaders[i + 1] ?? "");
  return all;
}

function once(before: string | null, value: string, name: string): string {
  if (before !== null) throw badRequest(`The ${name} header may be given only once.`);
  return value;
}

function joined(before: string | null, value: string): string {
  return before === null ? value : `${before}, ${value}`;
}

function badRequest(message: string): AppError {
  return new AppError("bad_request", { message });
}

/** Whether an Accept header asks for server-sent events by name. */
export function wantsEvents(accept: string | null): boolean {
  return accept !== null && listed(accept, "text/event-stream") === true;
}

/** Whether an Accept-Encoding header allows gzip. */
export function takesGzip(acceptEncoding: string | null): boolean {
  if (acceptEncoding === null) return false;
  return listed(acceptEncoding, "gzip") ?? listed(acceptEncoding, "*") ?? false;
}

/** True for a name in the list, false for one with `q=0`, null for one that is not there. */
function listed(list: string, name: string): boolean | null {
  for (const item of list.split(",")) {
    const [value = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    if (value !== name) continue;
    return !parameters.some((parameter) => /^q\s*=\s*0(?:\.0{0,3})?$/.test(parameter));
  }
  return null;
}

/** Longer than any proxy keeps a silent connection. */
const MAX_WAIT_SECONDS = 3600;
const WAIT = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:$|[,;])/i;

/** How long the caller will wait according to `Prefer: wait=N`, in seconds; null if the header does not say. */
export function preferredWait(prefer: string | null): number | null {
  const seconds = prefer === null ? undefined : WAIT.exec(prefer)?.[1];
  return seconds === undefined ? null : Math.min(Number(seconds), MAX_WAIT_SECONDS);
}
