/** The facts of a failure. */
export type ErrorFacts = {
  readonly code: string;
  readonly message: string;
  /** The HTTP status; null where there was none, as for an error inside a stream. */
  readonly status?: number | null;
  /** The request's id, of a run call the run's. */
  readonly requestId?: string | null;
  readonly details?: readonly unknown[];
  readonly retryAfterSeconds?: number | null;
  readonly cause?: unknown;
};

/** Everything this library throws, except what an `AbortSignal` gives as its reason. Branch on class or `code`. */
export class MillraceError extends Error {
  readonly code: string;
  readonly status: number | null;
  readonly requestId: string | null;
  readonly details: readonly unknown[];
  readonly retryAfterSeconds: number | null;

  constructor(facts: ErrorFacts) {
    super(facts.message, facts.cause === undefined ? {} : { cause: facts.cause });
    this.name = new.target.name;
    this.code = facts.code;
    this.status = facts.status ?? null;
    this.requestId = facts.requestId ?? null;
    this.details = facts.details ?? [];
    this.retryAfterSeconds = facts.retryAfterSeconds ?? null;
  }
}

/** The token is missing, invalid, or not allowed to do that. */
export class Unauthorized extends MillraceError {}

/** There is no such app, function or run, or its result is not stored. */
export class NotFound extends MillraceError {}

/** The arguments do not fit the function; `details` names each one. */
export class InvalidArguments extends MillraceError {}

/** The function raised, died, or returned a value that cannot be sent. */
export class AppFailed extends MillraceError {}

/** The app's own code failed when it was loaded. */
export class NotReady extends MillraceError {}

/** The service cannot take the call now; `retryAfterSeconds` says when to retry. */
export class Busy extends MillraceError {}

/** The run passed its `response_grace_period`. */
export class TimedOut extends MillraceError {}

/** The run was cancelled. */
export class Cancelled extends MillraceError {}

/**
 * The connection broke before the whole answer was there. Code `connection_lost`: the outcome of the call is unknown;
 * `stream_lost`: the rest of a stream is no longer available.
 */
export class ConnectionLost extends MillraceError {}

/** The classes with their codes. */
const CODES: readonly (readonly [Kind: typeof MillraceError, ...codes: readonly string[]])[] = [
  [Unauthorized, "unauthorized", "forbidden"],
  [NotFound, "not_found", "app_not_found", "function_not_found", "run_not_found", "payload_not_kept"],
  [InvalidArguments, "invalid_arguments"],
  [AppFailed, "app_error", "result_not_json", "result_too_large", "app_crashed", "bad_app_response"],
  [AppFailed, "out_of_memory", "out_of_gpu_memory"],
  [NotReady, "app_not_ready"],
  [Busy, "too_many_requests", "queue_full", "queue_timeout", "draining", "interrupted"],
  [Busy, "queue_draining", "backlog_full", "quota_exceeded"],
  [Busy, "no_gpu_free", "storage_unavailable"],
  [TimedOut, "timed_out"],
  [Cancelled, "cancelled"],
];
const KINDS = new Map(CODES.flatMap(([Kind, ...codes]) => codes.map((code) => [code, Kind] as const)));

/** All codes that have a class of their own. */
export const CLASSED_CODES: readonly string[] = [...KINDS.keys()];

/** The error, of the class for its code. */
export function errorOf(facts: ErrorFacts): MillraceError {
  const Kind = KINDS.get(facts.code) ?? MillraceError;
  return new Kind(facts);
}

/** The error in a body; null if it is not one of the service's. */
export function errorIn(body: unknown, response: Response | null): MillraceError | null {
  if (typeof body !== "object" || body === null) return null;
  const { code, message, request_id: requestId, error, details } = body as Record<string, unknown>;
  if (typeof code !== "string" || typeof message !== "string" || typeof error !== "object") return null;
  return errorOf({
    code,
    message,
    status: response?.status ?? null,
    requestId: typeof requestId === "string" ? requestId : null,
    details: Array.isArray(details) ? details : [],
    retryAfterSeconds: retryAfter(response),
  });
}

/** The error for an answer that is not the service's own, such as a proxy's. */
export function foreignError(response: Response, text: string): MillraceError {
  return new MillraceError({
    code: "unexpected_answer",
    message: `The response is not from Millrace: ${response.status} ${text.slice(0, 200)}`.trimEnd(),
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    retryAfterSeconds: retryAfter(response),
  });
}

/** Whether a retry of the same request may succeed. */
export function isTransient(error: unknown): error is MillraceError {
  if (!(error instanceof MillraceError)) return false;
  if (error.code === "unexpected_answer") return [429, 502, 503, 504].includes(error.status ?? 0);
  return error instanceof Busy || error.code === "connection_lost";
}

function retryAfter(response: Response | null): number | null {
  const text = response?.headers.get("retry-after") ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
}
