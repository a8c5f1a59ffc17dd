import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { isHost, isPlainlyChunked, labelBelow } from "../../kit/http/fields.ts";
import { MAX_PIPELINED } from "../../kit/listener.ts";
import { AppError, type ErrorCode } from "../../model/errors.ts";

const MAX_HEADERS = 100;
/** Of repeated ones Node would keep one, and a proxy perhaps another. */
const SINGLE: ReadonlySet<string> = new Set([
  "host",
  "authorization",
  "content-type",
  "origin",
  "transfer-encoding",
]);

/**
 * Refuses a request with an ambiguous target, sender or body length, and closes the connection, because the bytes that
 * follow could be an attacker's (request smuggling).
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

function closing(code: ErrorCode, message?: string): AppError {
  return new AppError(code, { ...(message !== undefined && { message }), headers: { connection: "close" } });
}

type Pending = { readonly request: IncomingMessage; readonly response: ServerResponse };

/** Pipelined requests are answered in order; those after a malformed one are not executed. */
export class Pipelines {
  readonly #pending = new WeakMap<Socket, Pending[]>();
  readonly #refused = new WeakSet<Socket>();
  readonly #unmet = new WeakSet<IncomingMessage>();

  /** Marks a request with an unsupported `Expect` header, which is refused in its turn. */
  noteUnmet(request: IncomingMessage): void {
    this.#unmet.add(request);
  }

  /** Counts a request; false beyond the limit, which ends the connection. */
  take(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const pending = this.#pending.get(socket) ?? [];
    if (pending.length >= MAX_PIPELINED) {
      this.#refused.add(socket);
      socket.destroy();
    }
    // Node still reports the other requests of the same packet.
    if (socket.destroyed) return false;
    const own = { request, response };
    pending.push(own);
    this.#pending.set(socket, pending);
    response.once("close", () => pending.splice(pending.indexOf(own), 1));
    return true;
  }

  /** Throws when the head of a request, or of one before it, is refused. */
  check(request: IncomingMessage): void {
    const { socket } = request;
    // Its answer is never sent: the one before closes the connection.
    if (this.#refused.has(socket)) throw new AppError("bad_request");
    try {
      requireClearHead(request);
      if (this.#unmet.has(request)) throw closing("expectation_failed");
    } catch (error) {
      this.#refused.add(socket);
      throw error;
    }
  }

  /** Calls `answer` when all earlier requests on that connection are answered. */
  afterOthers(socket: Socket, answer: () => void): void {
    this.#refused.add(socket);
    // If the body of a request is malformed, that request gets this answer.
    const before = this.#pending.get(socket)?.findLast(({ request }) => request.complete);
    if (before) before.response.once("finish", answer);
    else answer();
  }

  /** Resolves when all earlier requests on that connection are answered, or the connection has ended. */
  async othersAnswered(socket: Socket): Promise<void> {
    const before = this.#pending.get(socket)?.at(-1);
    if (before) await new Promise<void>((resolve) => before.response.once("close", () => resolve()));
  }
}
