import { DatabaseError } from "pg";
import { AppError } from "../../model/errors.ts";
import type { Operation } from "../operation.ts";

// SQLSTATE classes and codes about the server or the connection, not the statement.
const STORAGE_STATES = [
  /^08/, // connection exception
  /^25006$/, // read-only transaction: a standby
  /^25P0[34]$/, // idle in transaction, or a transaction, for too long
  /^28/, // the password or the rights changed
  /^3D000$/, // no such database
  /^40001$/, // in conflict with another transaction
  /^40003$/, // statement completion unknown
  /^40P01$/, // deadlock
  /^53/, // out of disk, memory or connections
  /^55P03$/, // lock timeout
  /^57/, // shutting down, starting up, cancelled by statement_timeout
  /^58/, // I/O error, or a pooler's own error
  /^XX00[12]$/, // corrupted data
];

// Those after which the connection cannot be used.
const LOST_STATE = /^(08|57P0|25P03)/;

// The server ends the session, or a pooler has lost the server: the transaction may have been committed.
const DOUBTFUL_STATE = /^(08|40003$|57P|58000$)/;

// Node's own error codes.
const CONNECTION_CODE = /^(E[A-Z]+|CERT_|DEPTH_|ERR_(TLS|SSL|SOCKET|STREAM)_)/;

/** Errors of connections that could not be made: nothing was sent. */
const unsent = new WeakSet<Error>();
/** Errors of queries that were sent and not answered. */
const unanswered = new WeakSet<Error>();

/** Marks an error as one before there was a connection; returns it. */
export function beforeConnecting(error: unknown): unknown {
  if (error instanceof Error) unsent.add(error);
  return error;
}

/** Marks an error as that of a query; returns it. */
export function ofQuery(error: unknown): unknown {
  // Every error that is not an answer of the server is a loss, but not a value that `pg` cannot send.
  const isLoss = error instanceof Error && !(error instanceof DatabaseError) && !(error instanceof TypeError);
  if (isLoss) unanswered.add(error);
  return error;
}

/** Whether the connection cannot be used after this error. */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return unanswered.has(error) || isFatal(error) || CONNECTION_CODE.test(code) || LOST_STATE.test(code);
}

/** Whether nothing can be written through this connection: its session or its server is read-only. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === "25006";
}

/**
 * Turns errors of the server or the connection into `storage_unavailable`, or into `in_doubt` for a write that was sent
 * without proof that it was rolled back; returns other errors unchanged.
 */
export function translateError(error: unknown, mode: Operation<never, unknown, never>["mode"]): unknown {
  if (!isOfStorage(error)) return error;
  const isInDoubt = mode !== "read" && !unsent.has(error) && !provesRollback(error);
  return new AppError(isInDoubt ? "in_doubt" : "storage_unavailable", {}, error);
}

/**
 * Whether the server reports that the statement failed and that its session continues. A server that panics may have
 * committed; a severity in another language (`lc_messages`) proves nothing.
 */
function provesRollback(error: Error): boolean {
  const isFailure = error instanceof DatabaseError && error.severity === "ERROR";
  return isFailure && !DOUBTFUL_STATE.test(codeOf(error));
}

/** Whether a conflict with another transaction rolled this one back: it may be retried at once. */
export function isConflict(error: unknown): boolean {
  return error instanceof DatabaseError && /^40(001|P01)$/.test(codeOf(error)) && provesRollback(error);
}

/** Whether the server cancelled a statement because it took too long. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === "57014";
}

/** Whether the server did not answer or finish in time; any other error is an answer. */
export function isSilence(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return isTimeout(error) || codeOf(error) === "ETIMEDOUT" || /\btime(d )?out\b/i.test(error.message);
}

/** Whether an error is about the server or the connection, not the statement. */
export function isOfStorage(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (unsent.has(error) || isConnectionLost(error)) return true;
  return STORAGE_STATES.some((state) => state.test(codeOf(error)));
}

/** Whether the server or a pooler ends the session with it; so does a malformed message. */
function isFatal(error: Error): boolean {
  if (!(error instanceof DatabaseError)) return false;
  return error.code === undefined || error.severity === "FATAL" || error.severity === "PANIC";
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}
