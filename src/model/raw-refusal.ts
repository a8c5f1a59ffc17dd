import type { Refusal } from "../kit/listener.ts";
import { AppError, errorBody } from "./errors.ts";
import { STATUS_CODES } from "../kit/node-http.ts";

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
