import type { Refusal } from "../kit/listener.ts";
import { STATUS_CODES } from "../kit/node-http.ts";

/**
 * The closed catalogue of what a caller may be told. `docs/errors.md` lists the same rows; a test
 * compares the two in both directions.
 */
export const ERRORS = {
  bad_request: { status: 400, type: "invalid_request_error", message: "The request is malformed." },
  invalid_json: { status: 400, type: "invalid_request_error", message: "The body is not valid JSON." },
  upload_invalid: { status: 400, type: "invalid_request_error", message: "The upload cannot be used." },
  unauthorized: { status: 401, type: "authentication_error", message: "A valid bearer token is required." },
  forbidden: { status: 403, type: "permission_error", message: "This token is not allowed to do that." },
  not_found: { status: 404, type: "not_found_error", message: "There is nothing here." },
  app_not_found: { status: 404, type: "not_found_error", message: "The project has no such app." },
  function_not_found: { status: 404, type: "not_found_error", message: "The app has no such function." },
  run_not_found: { status: 404, type: "not_found_error", message: "The app has no such run." },
  build_not_found: { status: 404, type: "not_found_error", message: "The app has no such build." },
  method_not_allowed: {
    status: 405,
    type: "invalid_request_error",
    message: "The method is not allowed here.",
  },
  request_timeout: {
    status: 408,
    type: "invalid_request_error",
    message: "The request took too long to arrive.",
  },
  run_finished: { status: 409, type: "invalid_request_error", message: "The run has already ended." },
  build_finished: { status: 409, type: "invalid_request_error", message: "The build has already ended." },
  run_unfinished: {
    status: 409,
    type: "invalid_request_error",
    message: "A run with this Idempotency-Key is still in progress.",
  },
  payload_not_kept: {
    status: 410,
    type: "not_found_error",
    message:
      "This is no longer stored, or never was: it is too old, it was too large, or record_payloads excludes it.",
  },
  body_too_large: {
    status: 413,
    type: "invalid_request_error",
    message: "The body is larger than the app accepts.",
  },
  uri_too_long: { status: 414, type: "invalid_request_error", message: "The address is too long." },
  unsupported_media_type: {
    status: 415,
    type: "invalid_request_error",
    message: "Send the body as application/json in UTF-8, without a content encoding.",
  },
  range_not_satisfiable: {
    status: 416,
    type: "invalid_request_error",
    message: "The file has no such bytes.",
  },
  expectation_failed: {
    status: 417,
    type: "invalid_request_error",
    message: "Only Expect: 100-continue is supported.",
  },
  misdirected: {
    status: 421,
    type: "not_found_error",
    message: "No app has this host. `millrace apps get APP` shows the host of an app.",
  },
  invalid_arguments: {
    status: 422,
    type: "invalid_request_error",
    message: "The arguments do not fit the function.",
  },
  invalid_webhook: {
    status: 422,
    type: "invalid_request_error",
    message: "The webhookEndpoint is not an address that webhooks may reach.",
  },
  deploy_invalid: {
    status: 422,
    type: "invalid_request_error",
    message: "The deploy's configuration cannot be used.",
  },
  idempotency_mismatch: {
    status: 422,
    type: "invalid_request_error",
    message: "This Idempotency-Key was used for another call.",
  },
  too_many_requests: {
    status: 429,
    type: "rate_limit_error",
    message: "Too many attempts; wait before you try again.",
  },
  too_many_connections: {
    status: 429,
    type: "rate_limit_error",
    message: "You have too many open connections.",
  },
  too_many_in_flight: {
    status: 429,
    type: "rate_limit_error",
    message: "Too many requests are in progress; wait for some to finish.",
  },
  headers_too_large: { status: 431, type: "invalid_request_error", message: "The headers are too large." },
  cancelled: { status: 499, type: "app_error", message: "The run was cancelled." },
  app_error: { status: 500, type: "app_error", message: "The function raised an exception." },
  result_not_json: { status: 500, type: "app_error", message: "The result cannot be written as JSON." },
  result_too_large: { status: 500, type: "app_error", message: "The result is larger than max_result." },
  internal: {
    status: 500,
    type: "internal_error",
    message: "Internal error; the service's log has the details under this request id.",
  },
  not_available: { status: 501, type: "internal_error", message: "This release cannot do that yet." },
  app_crashed: { status: 502, type: "app_error", message: "The app's process ended before it answered." },
  bad_app_response: {
    status: 502,
    type: "app_error",
    message: "The app's server did not answer with a valid HTTP response.",
  },
  out_of_memory: { status: 502, type: "app_error", message: "The app's process ran out of memory." },
  app_moved: {
    status: 503,
    type: "overloaded_error",
    message: "The app has just moved to another node; try again.",
  },
  node_lost: {
    status: 502,
    type: "overloaded_error",
    message: "The node that ran this call was lost; whether the call ended is not known.",
  },
  app_not_ready: { status: 503, type: "app_error", message: "The app failed to initialise." },
  queue_full: { status: 503, type: "overloaded_error", message: "Too many calls are waiting for this app." },
  queue_timeout: {
    status: 503,
    type: "overloaded_error",
    message: "The call waited too long for a free replica.",
  },
  overloaded: {
    status: 503,
    type: "overloaded_error",
    message: "The service cannot take more connections right now; try again shortly.",
  },
  draining: { status: 503, type: "overloaded_error", message: "The service is stopping; try again shortly." },
  interrupted: {
    status: 503,
    type: "overloaded_error",
    message: "The service stopped while the run was in progress.",
  },
  storage_unavailable: {
    status: 503,
    type: "overloaded_error",
    message: "The service cannot write to its storage; nothing was accepted.",
  },
  in_doubt: {
    status: 503,
    type: "overloaded_error",
    message: "The connection to storage was lost during the write; it may or may not have been saved.",
  },
  query_timeout: {
    status: 503,
    type: "overloaded_error",
    message: "The query took too long; ask for a shorter time span or fewer filters.",
  },
  timed_out: { status: 504, type: "app_error", message: "The run exceeded its response_grace_period." },
} as const satisfies Record<string, { status: number; type: string; message: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** What a caller may learn beyond code and status. */
export type ErrorDetail = {
  /** Replaces the catalogue's sentence. */
  readonly message?: string;
  /** Several faults at once, each on its own. */
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
  return new AppError("function_not_found", {
    message: `The app has no such function; it has ${listed}${more}.`,
  });
}

/** Whether an error leaves open what became of a write. */
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

/** An error as the whole answer on a connection that ends with it: for what came before there was a request. */
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

/** What a connection is told for which there is no room. */
export function noRoom(why: Refusal | "owner"): AppError {
  if (why === "listener") return new AppError("overloaded", { headers: RETRY_AFTER });
  const message =
    why === "address"
      ? "Too many connections from this address have sent no token."
      : "This project already holds half of all connections, and few are left.";
  return new AppError("too_many_connections", { message, headers: RETRY_AFTER });
}
