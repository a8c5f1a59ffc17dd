import { AppError } from "../../model/errors.ts";
import type { ErrorCode, ErrorDetail } from "../../model/errors.ts";
import { DamagedStorage } from "../storage-fault.ts";
import type { FileIdentity } from "./file-identity.ts";

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
export type Failure =
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
