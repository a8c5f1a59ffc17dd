import { AppError } from "../../model/errors.ts";
import type { ErrorCode, ErrorDetail } from "../../model/errors.ts";
import { DamagedStorage } from "../upkeep/storage-fault.ts";
import type { FileIdentity } from "./connection.ts";

/** What a database thread opens. */
export type ThreadData = {
  readonly mode: ThreadMode;
  readonly path: string;
  /** The files that have to be there; absent when they are opened for the first time. */
  readonly identity?: FileIdentity;
};

/** To look is to read where no writer has opened the database before. */
export type ThreadMode = "read" | "write" | "look";

/** One operation asked of a thread. */
export type Request = {
  readonly id: number;
  readonly name: string;
  readonly packed: unknown;
  /** After which nobody waits for it any more, by `threadsMs`. */
  readonly deadlineMs?: number | undefined;
};

/** To a thread: a database to open, an operation, or the word to finish and close it. */
export type ToThread = ThreadData | Request | "close";

/** From a thread: that it is open or closed, or answers; a batch of writes is answered in one message. */
export type FromThread = "ready" | "closed" | readonly Reply[];

export type Reply = { readonly id: number } & ({ readonly result: unknown } | { readonly failure: Failure });

/** An error in a form that structured clone keeps: it would make a plain Error of an AppError. */
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

// Primary result codes that speak of the disk or the file, not of the statement.
const STORAGE_CODES = new Set([
  5, // BUSY: another process holds the file beyond busy_timeout
  7, // NOMEM
  8, // READONLY
  10, // IOERR
  13, // FULL
  14, // CANTOPEN
]);

// Those that say that the file itself is broken: trying again does not help.
const DAMAGE_CODES = new Set([
  11, // CORRUPT
  26, // NOTADB
]);

const IOERR = 10;
/** A write to the file failed: what SQLite wrote last is not whole, and no commit. */
const IOERR_WRITE = 778;

/** `storage_unavailable` for what SQLite reports about its file, `DamagedStorage` for damage; any other error as it is. */
export function translateError(error: unknown): unknown {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return error;
  // The low byte is the primary code, the rest says where it happened.
  const code = error.errcode & 0xff;
  const text = `SQLite: ${error.message} (code ${error.errcode})`;
  if (DAMAGE_CODES.has(code)) return new DamagedStorage(text);
  if (!STORAGE_CODES.has(code)) return error;
  return new AppError("storage_unavailable", {}, new Error(text, { cause: error }));
}

/**
 * The same of a commit. One that the disk did not confirm is `in_doubt`: SQLite has taken it back, but until its next
 * write the log's file holds all of it, and whoever opens the database after a crash would find it committed.
 */
export function translateCommitError(error: unknown): unknown {
  const translated = translateError(error);
  if (!(translated instanceof AppError)) return translated;
  const { errcode } = error as { readonly errcode: number };
  return (errcode & 0xff) === IOERR && errcode !== IOERR_WRITE
    ? new AppError("in_doubt", {}, translated.cause)
    : translated;
}
