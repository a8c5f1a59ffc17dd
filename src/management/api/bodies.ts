import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import type { Clock } from "../../kit/clock.ts";
import { checkJson } from "../../kit/json/check-json.ts";
import { KeptBody } from "../../kit/bytes.ts";
import { AppError } from "../../model/errors.ts";

/** Of nested objects and arrays, including the body itself. */
const MAX_DEPTH = 32;
const UTF8 = /^\s*"?utf-?8"?\s*$/i;
const CHARSET = /;\s*charset=([^;]*)/i;

type BodyHeaders = Pick<IncomingHttpHeaders, "content-type" | "content-encoding">;

/**
 * The JSON object of a body, of at most so many values; undefined for an empty body. Throws `unsupported_media_type`
 * and `invalid_json`. It is scanned first, so that JSON that is too deep or not an object is never parsed.
 */
export function readJson(bytes: Buffer, headers: BodyHeaders, maxValues: number): unknown {
  refuseEncodings(headers);
  if (bytes.length === 0) return undefined;
  const fault = checkJson(bytes, MAX_DEPTH);
  if (fault) throw new AppError("invalid_json", { message: fault.message });
  const value: unknown = JSON.parse(bytes.toString());
  refuseOddities(value, { left: maxValues, maxValues });
  return value;
}

/** Throws for texts that cannot be stored or printed (see `isPlainText`), and for too many values. */
function refuseOddities(value: unknown, count: { left: number; readonly maxValues: number }): void {
  count.left -= 1;
  if (count.left < 0)
    throw new AppError("invalid_json", { message: `The body has more than ${count.maxValues} values.` });
  if (typeof value === "string") {
    if (!isPlainText(value)) throw new AppError("invalid_json");
  } else if (typeof value === "object" && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      if (!isPlainText(name)) throw new AppError("invalid_json");
      refuseOddities(member, count);
    }
  }
}

/** Without lone surrogates, which have no UTF-8, and without NUL, which Postgres does not accept. */
export function isPlainText(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

/** Accepts only unencoded UTF-8; throws `unsupported_media_type`. */
function refuseEncodings(headers: BodyHeaders): void {
  const charset = CHARSET.exec(headers["content-type"] ?? "")?.[1];
  const encoding = headers["content-encoding"] ?? "identity";
  if ((charset === undefined || UTF8.test(charset)) && encoding.toLowerCase() === "identity") return;
  throw new AppError("unsupported_media_type");
}

export type Arrival = {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Sends `100 Continue` if the client waits for it. */
  ask(): void;
};

export function arrivalOf(
  { headers, httpVersion }: IncomingMessage,
  response: ServerResponse,
  times: Pick<Arrival, "clock" | "timeoutMs">,
): Arrival {
  return {
    ...times,
    ask: () => {
      // HTTP/1.0 has no `100 Continue`.
      const isHeldBack = headers.expect !== undefined && httpVersion === "1.1";
      if (isHeldBack && !response.headersSent) response.writeContinue();
    },
  };
}

/** Reads a whole body; throws `body_too_large` as soon as that is certain, and `request_timeout`. */
export function readBody(from: IncomingMessage, maxBytes: number, arrival: Arrival): Promise<Buffer> {
  const { timeoutMs, clock } = arrival;
  if (Number(from.headers["content-length"] ?? 0) > maxBytes) return Promise.reject(tooLarge(maxBytes));
  arrival.ask();
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const kept = new KeptBody(maxBytes);
  const onData = (piece: Buffer): void => {
    kept.add(piece);
    if (kept.isTooLarge) reject(tooLarge(maxBytes));
  };
  const onEnd = (): void => {
    const body = kept.whole();
    if (body) resolve(body);
  };
  // The connection broke; the answer goes nowhere.
  const onGone = (): void => reject(new AppError("bad_request"));
  const timer = clock.after(timeoutMs, () => reject(new AppError("request_timeout")));
  from.on("data", onData).once("end", onEnd).once("error", onGone).once("close", onGone);
  return promise.finally(() => {
    timer.cancel();
    from.off("data", onData).off("end", onEnd).off("error", onGone).off("close", onGone);
  });
}

function tooLarge(maxBytes: number): AppError {
  return new AppError("body_too_large", { message: `The body is larger than ${maxBytes} bytes.` });
}

/** An upload must send at least this much per timeout. */
const LEAST_BYTES = 64 * 1024;

/** Reads the bytes of a request with `take`; drops a client that almost stops sending. */
export async function takeBytes<T>(
  reply: FastifyReply,
  take: (from: IncomingMessage) => Promise<T>,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<T> {
  const { raw, arrival } = reply.request;
  // `take` counts the bytes; a declared length can be refused before they are sent.
  if (Number(raw.headers["content-length"] ?? 0) > maxBytes) throw new AppError("body_too_large");
  if (!arrival) throw new Error("bytes were taken before their request was received");
  const { clock, timeoutMs } = arrival;
  let seen = raw.socket.bytesRead;
  const timer = clock.every(timeoutMs, () => {
    const { bytesRead } = raw.socket;
    if (bytesRead - seen < LEAST_BYTES && !raw.complete) raw.destroy();
    seen = bytesRead;
  });
  arrival.ask();
  try {
    return await take(raw);
  } catch (error) {
    // The client has gone; the answer goes nowhere.
    throw raw.destroyed && !raw.complete ? new AppError("bad_request") : error;
  } finally {
    timer.cancel();
  }
}
