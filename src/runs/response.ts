import { writeAscii } from "../kit/bytes.ts";
import { AppError, noSuchFunction, errorBody } from "../model/errors.ts";
import type { Late, Misfit, Outcome } from "../model/outcome.ts";

/** The HTTP response to a run, byte for byte as a sync caller gets it. */
export type RunResponse = {
  readonly status: number;
  /** Null when there is no body. */
  readonly contentType: string | null;
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** Null for a success. */
  readonly error: AppError | null;
};

const JSON_TYPE = "application/json";
const UNKNOWN_TYPE = "application/octet-stream";
const NO_HEADERS = {};
const TRY_SOON = { "retry-after": "1" };
const EMPTY = Buffer.alloc(0);
/** The type of a stream, whose chunks were the body. */
export const STREAM_TYPE = "text/event-stream; charset=utf-8";
const SUCCESS = { body: EMPTY, headers: NO_HEADERS, error: null };
const STREAMED: RunResponse = { ...SUCCESS, status: 200, contentType: STREAM_TYPE };
const QUOTE = 0x22;
const ENVELOPE_START_BYTES = `{"run_id":"${"0".repeat(36)}","result":`.length;
const ENVELOPE_END = ',"run_time_ms":';
/** At most; the time is a number of milliseconds. */
const ENVELOPE_END_BYTES = ENVELOPE_END.length + 32;
const BODILESS = new Set([204, 205, 304]);

/** The response for an outcome; `isBare`: without the envelope. */
export function respond(runId: string, outcome: Outcome, isBare: boolean): RunResponse {
  if (outcome.kind === "streamed") return STREAMED;
  if (outcome.kind === "responded") {
    // A large body was only sent to its caller.
    const body = outcome.body ?? EMPTY;
    const contentType = outcome.contentType ?? (body.length > 0 ? UNKNOWN_TYPE : null);
    return { status: outcome.status, contentType, body, headers: NO_HEADERS, error: null };
  }
  if (outcome.kind !== "returned") return respondError(runId, errorOf(outcome));
  const { status, json, runMs } = outcome;
  if (BODILESS.has(status)) return { ...SUCCESS, status, contentType: null };
  const body = isBare ? json : envelope(runId, json, runMs);
  return { status, contentType: JSON_TYPE, body, headers: NO_HEADERS, error: null };
}

/** The response to a failed run, or to a request that never became one. */
export function respondError(requestId: string, error: AppError): RunResponse {
  const body = Buffer.from(errorBody(error, requestId));
  return {
    status: error.status,
    contentType: JSON_TYPE,
    body,
    headers: error.detail.headers ?? (error.status === 503 ? TRY_SOON : NO_HEADERS),
    error,
  };
}

/** Puts the result's bytes between the two other members, without parsing them. */
function envelope(runId: string, json: Buffer, runMs: number): Buffer {
  const before = `{"run_id":"${runId}","result":`;
  const after = `${ENVELOPE_END}${msText(runMs)}}`;
  const body = Buffer.allocUnsafe(before.length + json.length + after.length);
  body.write(before, 0, "latin1");
  body.set(json, before.length);
  writeAscii(after, body, before.length + json.length);
  return body;
}

/** The result in a response's body, without the envelope. */
export function unwrapResult(body: Uint8Array, isBare: boolean): Buffer {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return isBare ? bytes : bytes.subarray(ENVELOPE_START_BYTES, bytes.lastIndexOf(ENVELOPE_END));
}

/** The same of a body that comes in pieces. */
export async function* unwrapPieces(
  body: Iterable<Buffer> | AsyncIterable<Buffer>,
  isBare: boolean,
): AsyncGenerator<Buffer> {
  let skipped = isBare ? ENVELOPE_START_BYTES : 0;
  let rest = EMPTY;
  for await (const piece of body) {
    const start = Math.min(piece.length, ENVELOPE_START_BYTES - skipped);
    skipped += start;
    const bytes = Buffer.concat([rest, piece.subarray(start)]);
    // The end of the envelope may be in the next piece.
    const end = isBare ? bytes.length : Math.max(0, bytes.length - ENVELOPE_END_BYTES);
    yield bytes.subarray(0, end);
    rest = bytes.subarray(end);
  }
  if (!isBare) yield rest.subarray(0, rest.lastIndexOf(ENVELOPE_END));
}

/** A plain value as if it had been yielded. */
export function plainChunk(json: Buffer): { readonly isText: boolean; readonly bytes: Buffer } {
  const isText = json[0] === QUOTE;
  return { isText, bytes: isText ? Buffer.from(JSON.parse(json.toString()) as string) : json };
}

/** Whether a response with that status never has a body. */
export function isBodiless(status: number): boolean {
  return BODILESS.has(status);
}

/** The texts of short spans. Each response has four, and V8 takes 150 ns to format a fraction. */
const HUNDREDTHS = Array.from({ length: 1000 }, (_, n) => String(n / 100));

/** A span as text, with two decimals: 10 µs is finer than clocks are accurate. */
export function msText(ms: number): string {
  const hundredths = Math.round(ms * 100);
  return HUNDREDTHS[hundredths] ?? String(hundredths / 100);
}

/** The error for arguments that do not fit; `more` of them are only counted. */
export function respondMisfit(details: readonly Misfit[], more: number): AppError {
  const parts = details.map(({ field, problem, message }) => `${field} ${message ?? `is ${problem}`}`);
  if (more > 0) parts.push(`and ${more} more`);
  return new AppError("invalid_arguments", { message: parts.join("; "), details });
}

export function lateError(code: Late["code"]): AppError {
  return new AppError(code, code === "timed_out" ? { message: "The run exceeded its timeout." } : {});
}

function errorOf(outcome: Exclude<Outcome, { kind: "returned" | "streamed" | "responded" }>): AppError {
  switch (outcome.kind) {
    case "raised":
    case "unsendable":
      // The same call would fail again: clients that retry on 500 must not.
      return new AppError(outcome.code, { message: outcome.message, headers: { "x-should-retry": "false" } });
    case "misfit":
      return respondMisfit(outcome.details, outcome.more);
    case "no_function":
      return noSuchFunction(outcome.functions);
    case "died":
      if (outcome.isOutOfGpuMemory)
        return new AppError("out_of_gpu_memory", {
          message: `The app's process was ended: ${outcome.detail}.`,
        });
      return new AppError(outcome.isOutOfMemory ? "out_of_memory" : "app_crashed", {
        message: outcome.isOutOfMemory
          ? `The app's process ran out of memory: ${outcome.detail}.`
          : `The app's process ended before it answered (${outcome.detail}).`,
      });
    case "broken":
      return new AppError("bad_app_response", { message: outcome.message });
    case "timed_out":
      return new AppError("timed_out", {
        message: `The run exceeded its response_grace_period of ${outcome.afterMs / 1000} s.`,
      });
    case "late":
      return lateError(outcome.code);
    case "cancelled":
      return new AppError("cancelled", outcome.message === undefined ? {} : { message: outcome.message });
    case "lost":
      return new AppError("payload_not_kept", { message: outcome.message });
    case "refused": {
      const { code, message, retryAfterSeconds = 1 } = outcome;
      const headers = { "retry-after": String(retryAfterSeconds) };
      return new AppError(code, message === undefined ? { headers } : { message, headers });
    }
    default:
      return outcome satisfies never;
  }
}
