import type { Refusal } from "../kit/listener.ts";
import { STATUS_CODES } from "../kit/node-http.ts";

const ofType = (type: string) => (status: number, message: string) => ({ status, type, message });
const invalid = ofType("invalid_request_error");
const unauthenticated = ofType("authentication_error");
const forbidden = ofType("permission_error");
const absent = ofType("not_found_error");
const limited = ofType("rate_limit_error");
const overloaded = ofType("overloaded_error");
const ofApp = ofType("app_error");
const internal = ofType("internal_error");

/** All errors that a caller can get; a test compares the list with `docs/errors.md`. */
export const ERRORS = {
  bad_request: invalid(400, "The request is malformed."),
  invalid_json: invalid(400, "The body is not valid JSON."),
  upload_invalid: invalid(400, "The upload cannot be used."),
  unauthorized: unauthenticated(401, "A valid bearer token is required."),
  forbidden: forbidden(403, "This token is not allowed to do that."),
  not_found: absent(404, "There is nothing here."),
  app_not_found: absent(404, "The project has no such app."),
  function_not_found: absent(404, "The app has no such function."),
  run_not_found: absent(404, "The app has no such run."),
  build_not_found: absent(404, "The app has no such build."),
  schedule_not_found: absent(404, "The app has no such schedule."),
  bulk_job_not_found: absent(404, "The app has no such action on many runs, or it was long ago."),
  batch_not_found: absent(404, "The app has no such batch."),
  method_not_allowed: invalid(405, "The method is not allowed here."),
  request_timeout: invalid(408, "The request took too long to arrive."),
  run_finished: invalid(409, "The run has already ended."),
  build_finished: invalid(409, "The build has already ended."),
  schedule_exists: invalid(409, "The app has a schedule of that name already."),
  batch_finished: invalid(409, "The batch has already ended, or is being cancelled."),
  batch_unfinished: invalid(409, "The batch has not ended yet."),
  upload_replaced: invalid(409, "Another connection has taken over the upload with this Idempotency-Key."),
  run_unfinished: invalid(409, "A run with this Idempotency-Key is still in progress."),
  payload_not_kept: absent(
    410,
    "This is no longer stored, or never was: it is too old, it was too large, or record_payloads excludes it.",
  ),
  body_too_large: invalid(413, "The body is larger than the app accepts."),
  uri_too_long: invalid(414, "The address is too long."),
  unsupported_media_type: invalid(
    415,
    "Send the body as application/json in UTF-8, without a content encoding.",
  ),
  range_not_satisfiable: invalid(416, "The file has no such bytes."),
  expectation_failed: invalid(417, "Only Expect: 100-continue is supported."),
  misdirected: absent(421, "No app has this host. `millrace apps get APP` shows the host of an app."),
  invalid_arguments: invalid(422, "The arguments do not fit the function."),
  invalid_webhook: invalid(422, "The webhookEndpoint is not an address that webhooks may reach."),
  deploy_invalid: invalid(422, "The deploy's configuration cannot be used."),
  idempotency_mismatch: invalid(422, "This Idempotency-Key was used for another call."),
  too_many_requests: limited(429, "Too many attempts; wait before you try again."),
  quota_exceeded: limited(429, "The token, or its project, has used what its quotas allow."),
  too_many_connections: limited(429, "You have too many open connections."),
  too_many_in_flight: limited(429, "Too many requests are in progress; wait for some to finish."),
  backlog_full: limited(429, "Too many async runs of this app are waiting; try again later."),
  headers_too_large: invalid(431, "The headers are too large."),
  cancelled: ofApp(499, "The run was cancelled."),
  app_error: ofApp(500, "The function raised an exception."),
  result_not_json: ofApp(500, "The result cannot be written as JSON."),
  result_too_large: ofApp(500, "The result is larger than max_result."),
  internal: internal(500, "Internal error; the service's log has the details under this request id."),
  not_available: internal(501, "This release cannot do that yet."),
  app_crashed: ofApp(502, "The app's process ended before it answered."),
  bad_app_response: ofApp(502, "The app's server did not answer with a valid HTTP response."),
  out_of_memory: ofApp(502, "The app's process ran out of memory."),
  out_of_gpu_memory: ofApp(502, "The app's process used more GPU memory than it was granted."),
  app_moved: overloaded(503, "The app has just moved to another node; try again."),
  node_lost: overloaded(502, "The node that ran this call was lost; whether the call ended is not known."),
  app_not_ready: ofApp(503, "The app failed to initialise."),
  queue_full: overloaded(503, "Too many calls are waiting for this app."),
  queue_draining: overloaded(
    503,
    "The app's queue is being drained: it takes no async runs until it is resumed.",
  ),
  queue_timeout: overloaded(503, "The call waited too long for a free replica."),
  no_gpu_free: overloaded(503, "No GPU that the app needs is free."),
  overloaded: overloaded(503, "The service cannot take more connections right now; try again shortly."),
  draining: overloaded(503, "The service is stopping; try again shortly."),
  interrupted: overloaded(503, "The service stopped while the run was in progress."),
  storage_unavailable: overloaded(503, "The service cannot write to its storage; nothing was accepted."),
  in_doubt: overloaded(
    503,
    "The connection to storage was lost during the write; it may or may not have been saved.",
  ),
  query_timeout: overloaded(503, "The query took too long; ask for a shorter time span or fewer filters."),
  storage_full: overloaded(507, "The service's disk is nearly full; it takes no more lines."),
  timed_out: ofApp(504, "The run exceeded its response_grace_period."),
  expired: ofApp(504, "The run did not begin within its ttl."),
} as const;

export type ErrorCode = keyof typeof ERRORS;

/** What an answer may have in addition to code and status. */
export type ErrorDetail = {
  /** Replaces the catalogue's sentence. */
  readonly message?: string;
  /** The faults, if there can be several. */
  readonly details?: readonly unknown[];
  readonly headers?: Readonly<Record<string, string>>;
};

/** The only error a client ever sees. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly detail: ErrorDetail;

  constructor(code: ErrorCode, detail: ErrorDetail = {}, cause?: unknown) {
    super(detail.message ?? ERRORS[code].message, cause === undefined ? {} : { cause });
    this.name = "AppError";
    this.code = code;
    this.detail = detail;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }
}

/** How many functions an error names before it counts the rest. */
const NAMED_FUNCTIONS = 20;

/** An app has no such function; the message lists those it has, if known. */
export function noSuchFunction(names: readonly string[] | undefined): AppError {
  if (names === undefined) return new AppError("function_not_found");
  if (names.length === 0)
    return new AppError("function_not_found", { message: "The app has no callable functions." });
  const listed = names.slice(0, NAMED_FUNCTIONS).join(", ");
  const more = names.length > NAMED_FUNCTIONS ? ` and ${names.length - NAMED_FUNCTIONS} more` : "";
  const message = `The app has no such function; it has ${listed}${more}.`;
  return new AppError("function_not_found", { message });
}

/** A caller asked for `setup`, whether or not the app has one. */
export function setupNotCallable(): AppError {
  const message =
    "setup cannot be called: a function of that name in main.py runs by itself at each start of a replica.";
  return new AppError("function_not_found", { message });
}

/** Whether an error leaves open whether a write was done. */
export function isInDoubt(error: unknown): boolean {
  return error instanceof AppError && error.code === "in_doubt";
}

/** Whether an error says for sure that a write was not done. */
export function isRefusal(error: unknown): boolean {
  return error instanceof AppError && error.code === "storage_unavailable";
}

/** The JSON body of an error, on both planes. */
export function errorBody(error: AppError, requestId: string): string {
  const { code, message, detail } = error;
  const { type } = ERRORS[code];
  return JSON.stringify({
    message,
    code,
    request_id: requestId,
    error: { message, code, type },
    ...(detail.details && { details: detail.details }),
  });
}

const RETRY_AFTER = { "retry-after": "1" };

/** The whole answer on a connection that ends with it, for errors before there is a request. */
export function rawRefusal(error: AppError, requestId: string): string {
  const body = errorBody(error, requestId);
  const headers = {
    ...error.detail.headers,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": requestId,
    connection: "close",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const status = `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? "Error"}`;
  return `${[status, ...lines].join("\r\n")}\r\n\r\n${body}`;
}

/** The error for a connection that is refused for lack of room. */
export function noRoom(why: Refusal | "owner"): AppError {
  if (why === "listener") return new AppError("overloaded", { headers: RETRY_AFTER });
  const message =
    why === "address"
      ? "Too many connections from this address have sent no token."
      : "This project already holds half of all connections, and few are left.";
  return new AppError("too_many_connections", { message, headers: RETRY_AFTER });
}
