import { AppError } from "../../model/errors.ts";
import type { Operation } from "../operation.ts";

// SQLSTATE classes and codes that speak of the server or the way to it, not of the statement.
const STORAGE_STATES = [
  /^08/, // connection exception
  /^25006$/, // read-only transaction: a standby
  /^25P0[34]$/, // idle in transaction, or a transaction, for too long
  /^28/, // the password or the rights changed
  /^3D000$/, // no such database
  /^53/, // out of disk, memory or connections
  /^57/, // shutting down, starting up, cancelled by statement_timeout
  /^58/, // input or output error
  /^XX00[12]$/, // corrupted data
];

// Of those, what the connection itself will not get over.
const LOST_STATE = /^(08|57P0|25P03)/;

// `pg` and Node have no SQLSTATE for these.
const CONNECTION_CODE = /^(E[A-Z]+|CERT_|DEPTH_|ERR_(TLS|SSL|SOCKET)_)/;
const CONNECTION_MESSAGE =
  /^(Connection terminated|Client has encountered a connection error|Client was closed|Query read timeout|timeout e?xpired|timeout exceeded when trying to connect|The server does not support SSL)/i;

// Of those, what comes after the connection stood. A connection that could not be made has written nothing.
const CUT_OFF_MESSAGE =
  /^(Connection terminated( unexpectedly)?$|Client has encountered a connection error|Client was closed|Query read timeout)/i;
const CUT_OFF_CODE = /^(ECONNRESET|EPIPE|ETIMEDOUT|08006|57P0[12])$/;

/** Whether the connection that brought this error is of no more use. */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return CONNECTION_MESSAGE.test(error.message) || CONNECTION_CODE.test(code) || LOST_STATE.test(code);
}

/** Whether it says that nothing can be written by this connection: its session is read-only, or its server is. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === "25006";
}

/**
 * `storage_unavailable` for what speaks of the server or the way to it, `in_doubt` where a write may have been done
 * all the same; any other error as it is.
 */
export function translateError(error: unknown, mode: Operation<never, unknown, never>["mode"]): unknown {
  if (!isOfStorage(error)) return error;
  return new AppError(mode !== "read" && isCutOff(error) ? "in_doubt" : "storage_unavailable", {}, error);
}

/** Whether the answer may have been lost on its way: the connection was there, and is not any more. */
function isCutOff(error: Error): boolean {
  return CUT_OFF_MESSAGE.test(error.message) || CUT_OFF_CODE.test(codeOf(error));
}

/** Whether the server gave a statement up because it took too long. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === "57014";
}

/** Whether the server said nothing in time, or did not get done; any other error is an answer. */
export function isSilence(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return isTimeout(error) || codeOf(error) === "ETIMEDOUT" || /\btime(d )?out\b/i.test(error.message);
}

/** Whether an error speaks of the server or the way to it, not of the statement. */
export function isOfStorage(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return isConnectionLost(error) || STORAGE_STATES.some((state) => state.test(codeOf(error)));
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}
