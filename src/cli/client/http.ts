import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from "node:http";
import { request as tlsRequest } from "node:https";
import { type Readable, Transform } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { type Message, SseParser } from "../../client/sse.ts";
import { request as plainRequest } from "../../kit/node-http.ts";
import { CliFailure } from "../failure.ts";

type Sending = Pick<RequestOptions, "method" | "headers" | "signal" | "agent"> & {
  readonly body?: string | Buffer | Readable;
};

/** An answer whose body has yet to be read. */
export type Answer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: IncomingMessage;
};

/** No answer came, or the connection was lost on the way. */
export class ConnectionError extends CliFailure {
  constructor(url: string, reason: string) {
    super(`no service answers at ${new URL(url).origin}: ${reason}`, {
      code: "unreachable",
      hint: "start one with millrace start, or name another with --url, MILLRACE_URL or millrace login URL",
    });
    this.name = "ConnectionError";
  }
}

/** Sends a request; resolves with the head of its answer. `fetch` gives up after 5 minutes without one, and runs take hours. */
export async function send(url: string, { body, ...options }: Sending): Promise<Answer> {
  const request = url.startsWith("https:") ? tlsRequest : plainRequest;
  return await new Promise((resolve, reject) => {
    const sent = request(url, options, (answer) => {
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: answer });
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      reject(options.signal?.aborted ? error : new ConnectionError(url, reasonOf(error)));
    });
    if (body === undefined || typeof body === "string" || Buffer.isBuffer(body)) sent.end(body);
    // A server may answer before it has read everything; the answer says why.
    else pipeline(body, sent).catch((error: Error) => (sent.destroyed ? undefined : sent.destroy(error)));
  });
}

/** A stream that passes bytes through and reports how many. */
export function countBytes(onBytes: (count: number) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _, done) {
      onBytes(chunk.length);
      done(null, chunk);
    },
  });
}

/** Posts JSON and reads the whole answer. */
export async function postJson(
  url: string,
  body: object,
  signal: AbortSignal,
  token?: string,
): Promise<{ status: number; text: string }> {
  const headers = {
    "content-type": "application/json",
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };
  const answer = await send(url, { method: "POST", headers, body: JSON.stringify(body), signal });
  return { status: answer.status, text: await textOf(answer) };
}

/** All of a body as text. */
export async function textOf({ body }: Answer): Promise<string> {
  return (await buffer(body)).toString();
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ENOTFOUND: "no such host",
  EAI_AGAIN: "its name cannot be resolved right now",
  ECONNRESET: "the connection was lost",
  EPIPE: "the connection was lost",
  ETIMEDOUT: "it did not answer in time",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
  EPROTO: "it does not speak TLS",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed",
  CERT_HAS_EXPIRED: "its certificate has expired",
};

function reasonOf(error: NodeJS.ErrnoException): string {
  // A host with several addresses gives one error for all; the first tells enough.
  const [first] = error instanceof AggregateError ? (error.errors as NodeJS.ErrnoException[]) : [error];
  const { code = "", message } = first ?? error;
  return REASONS[code] ?? message;
}

/** The messages of a stream of server-sent events, as they come; one that was cut off is left out. */
export async function* readMessages(body: AsyncIterable<Uint8Array>): AsyncGenerator<Message> {
  const parser = new SseParser();
  for await (const bytes of body) yield* parser.feed(bytes);
}
