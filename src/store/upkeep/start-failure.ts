import { statfsSync } from "node:fs";
import path from "node:path";
import type { Settings } from "../../config/setting-keys.ts";
import { AppError } from "../../model/errors.ts";
import { translateError } from "../sqlite/messages.ts";
import { DamagedStorage, restoring } from "./storage-fault.ts";
import { DATABASE_FILE } from "./whole-database.ts";

/** A storage error at the start, with a message for the operator. */
class StorageStartError extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.name = "StorageStartError";
  }
}

/** Errors of files beside the database: disk full, quota exceeded, read-only disk, failing disk. */
const DISK_CODES: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT", "EROFS", "EIO"]);
/** With less, the database cannot open its log. */
const LEAST_BYTES = 1_000_000;

/** Explains a start that failed because of the storage: where, why and what to do. Returns other errors unchanged. */
export function explainStart(error: unknown, { dataDir, databaseUrl }: StoreLocation): unknown {
  const damage = translateError(error);
  if (damage instanceof DamagedStorage) {
    const file = path.join(dataDir, DATABASE_FILE);
    return new StorageStartError(`${file} is damaged: ${damage.problem}. ${restoring(file)}`, error);
  }
  const cause = causeOf(error);
  if (cause === null) return error;
  const { isOfFile, text } = cause;
  if (databaseUrl !== null && !isOfFile) {
    const remedy = "check the log of the Postgres server, then start again";
    return new StorageStartError(`the Postgres database cannot be used: ${text}: ${remedy}`, error);
  }
  const free = freeBytes(dataDir);
  const room = free === null ? "" : ` (${Math.floor(free / 1e6)} MB free)`;
  return new StorageStartError(`cannot write to ${dataDir}${room}: ${text}: ${remedyFor(text, free)}`, error);
}

type StoreLocation = Pick<Settings, "dataDir" | "databaseUrl">;

function causeOf(error: unknown): { readonly text: string; readonly isOfFile: boolean } | null {
  if (error instanceof Error && "code" in error && DISK_CODES.has(error.code))
    return { text: error.message, isOfFile: true };
  const translated = translateError(error);
  if (!(translated instanceof AppError)) return null;
  const { code, cause } = translated;
  if (code !== "storage_unavailable" && code !== "in_doubt") return null;
  return { text: cause instanceof Error ? cause.message : translated.message, isOfFile: false };
}

function remedyFor(text: string, free: number | null): string {
  if ((free !== null && free < LEAST_BYTES) || /full|no space|ENOSPC|EDQUOT/i.test(text))
    return "make room on that disk, or move the directory to a larger one and set MILLRACE_DATA_DIR";
  if (/readonly|read-only|EROFS/i.test(text))
    return "make that disk writable, or move the directory and set MILLRACE_DATA_DIR";
  return "run millrace doctor for details; the kernel's log shows whether the disk is failing";
}

function freeBytes(dataDir: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(dataDir);
    return bavail * bsize;
  } catch {
    return null;
  }
}
