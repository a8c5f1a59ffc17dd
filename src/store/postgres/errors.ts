import { DatabaseError } from "pg";
import { AppError } from "../../model/errors.ts";
import type { Operation } from "../operation.ts";

// SQLSTATE classes and codes that speak of the server or the way to it, not of the statement.
const STORAGE_STATES = [
  /^08/, // connection exception
  /^25006$/, // read-only transaction: a standby
  /^25P0[34]$/, // idle in transaction, or a transaction, for too long
  /^28/, // the password or the rights changed
  /^3D000$/, // no such database
  /^40001$/, // in conflict with another transaction
  /^40003$/, // nobody knows whether the statement was completed
  /^40P01$/, // it and another waited for each other
  /^53/, // out of disk, memory or connections
  /^55P03$/, // a lock that was not given in the time that somebody has set
  /^57/, // shutting down, starting up, cancelled by statement_timeout
  /^58/, // input or output error, or a pooler's own
  /^XX00[12]$/, // corrupted data
];

// Of those, what the connection itself will not get over.
const LOST_STATE = /^(08|57P0|25P03)/;

// A server says these when it ends a session, a pooler when it has lost the server: the transaction may be done.
const DOUBTFUL_STATE = /^(08|40003$|57P|58000$)/;

// Node's own codes have no SQLSTATE.
const CONNECTION_CODE = /^(E[A-Z]+|CERT_|DEPTH_|ERR_(TLS|SSL|SOCKET|STREAM)_)/;

/** Of connections that could not be made: by those nothing was sent. */
const unsent = new WeakSet<Error>();
/** Of queries that were sent, and that no server answered. */
const unanswered = new WeakSet<Error>();

/** Notes that an error came before there was a connection; returns it. */
export function beforeConnecting(error: unknown): unknown {
  if (error instanceof Error) unsent.add(error);
  return error;
}

/** Notes that an error is what became of a query; returns it. */
export function ofQuery(error: unknown): unknown {
  // Everything that is no answer of the server is a loss, whatever its words; but not a value that `pg` cannot send.
  const isLoss = error instanceof Error && !(error instanceof DatabaseError) && !(error instanceof TypeError);
  if (isLoss) unanswered.add(error);
  return error;
}

/** Whether the connection that brought this error is of no more use. */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return unanswered.has(error) || isFatal(error) || CONNECTION_CODE.test(code) || LOST_STATE.test(code);
}

/** Whether it says that nothing can be written by this connection: its session is read-only, or its server is. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === "25006";
}

/**
 * `storage_unavailable` for what speaks of the server or the way to it, `in_doubt` where a write may have been done
 * all the same; any other error as it is. A write that was sent is in doubt unless the server's own word proves that
 * it was taken back.
 */
export function translateError(error: unknown, mode: Operation<never, unknown, never>["mode"]): unknown {
  if (!isOfStorage(error)) return error;
  const isInDoubt = mode !== "read" && !unsent.has(error) && !provesRollback(error);
  return new AppError(isInDoubt ? "in_doubt" : "storage_unavailable", {}, error);
}

/**
 * Whether the server itself says that the statement failed and that its session goes on. One that panics may have
 * written its commit. The word is translated where `lc_messages` is another language: then it proves nothing.
 */
function provesRollback(error: Error): boolean {
  const isFailure = error instanceof DatabaseError && error.severity === "ERROR";
  return isFailure && !DOUBTFUL_STATE.test(codeOf(error));
}

/** Whether another transaction was in the way, and nothing of this one is done: it may be tried again at once. */
export function isConflict(error: unknown): boolean {
  return error instanceof DatabaseError && /^40(001|P01)$/.test(codeOf(error)) && provesRollback(error);
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
  if (unsent.has(error) || isConnectionLost(error)) return true;
  return STORAGE_STATES.some((state) => state.test(codeOf(error)));
}

/** Whether the server, or a pooler, ends the session with it; so does what is no message of the protocol. */
function isFatal(error: Error): boolean {
  if (!(error instanceof DatabaseError)) return false;
  return error.code === undefined || error.severity === "FATAL" || error.severity === "PANIC";
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}
