import { AppError, type ErrorCode, type ErrorDetail } from "../../model/errors.ts";
import { DamagedStorage } from "../upkeep/storage-fault.ts";
import type { FileIdentity } from "./connection.ts";

/** The database that a thread opens, and the expected files unless they are opened for the first time. */
export type ThreadData = Readonly<{ mode: ThreadMode; path: string; identity?: FileIdentity }>;

/** `look`: read a database that no writer has opened before. */
export type ThreadMode = "read" | "write" | "look";

/** A call of an operation. Its caller stops waiting at the deadline, by `threadsMs`. */
export type Request = Readonly<{
  id: number;
  name: string;
  packed: unknown;
  deadlineMs?: number | undefined;
}>;

/** To a thread: a database to open, a call, or the request to finish and close it. */
export type ToThread = ThreadData | Request | "close";

/** From a thread: that it is open or closed, or replies; all writes of a batch in one message. */
export type FromThread = "ready" | "closed" | readonly Reply[];

export type Reply = { readonly id: number } & ({ readonly result: unknown } | { readonly failure: Failure });

/** An error for structured clone, which would turn an AppError into a plain Error. */
type Failure =
  | { readonly damage: string }
  | { readonly code: ErrorCode; readonly detail: ErrorDetail; readonly cause: unknown }
  | { readonly error: unknown };

export function toFailure(error: unknown): Failure {
  if (error instanceof DamagedStorage) return { damage: error.problem };
  if (!(error instanceof AppError)) return { error };
  return { code: error.code, detail: error.detail, cause: error.cause };
}

export function fromFailure(failure: Failure): unknown {
  if ("damage" in failure) return new DamagedStorage(failure.damage);
  return "code" in failure ? new AppError(failure.code, failure.detail, failure.cause) : failure.error;
}

// Primary result codes about the disk or the file, not the statement.
const STORAGE_CODES = new Set([
  5, // BUSY: another process locks the file for longer than busy_timeout
  7, // NOMEM
  8, // READONLY
  10, // IOERR
  13, // FULL
  14, // CANTOPEN
]);

// Result codes of a damaged file: retrying does not help.
const DAMAGE_CODES = new Set([
  11, // CORRUPT
  26, // NOTADB
]);

const IOERR = 10;
/** A write to the file failed: the last frame is incomplete, so there was no commit. */
const IOERR_WRITE = 778;

/** Turns errors of SQLite's file into `storage_unavailable` or `DamagedStorage`; returns other errors unchanged. */
export function translateError(error: unknown): unknown {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return error;
  // The low byte is the primary code; the rest says where it happened.
  const code = error.errcode & 0xff;
  const text = `SQLite: ${error.message} (code ${error.errcode})`;
  if (DAMAGE_CODES.has(code)) return new DamagedStorage(text);
  if (!STORAGE_CODES.has(code)) return error;
  return new AppError("storage_unavailable", {}, new Error(text, { cause: error }));
}

/**
 * The same for a commit. One that the disk did not confirm is `in_doubt`: SQLite has rolled it back, but until the next
 * write the log contains it, and a crash would restore it.
 */
export function translateCommitError(error: unknown): unknown {
  const translated = translateError(error);
  if (!(translated instanceof AppError)) return translated;
  const { errcode } = error as { readonly errcode: number };
  return (errcode & 0xff) === IOERR && errcode !== IOERR_WRITE
    ? new AppError("in_doubt", {}, translated.cause)
    : translated;
}
