import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { isUnreleased, UnreleasedFormat } from "../schema/unreleased.ts";
import { DATABASE_FILE } from "./whole-database.ts";

/** Another process uses the data directory. */
export class DirectoryInUseError extends Error {
  constructor(dataDir: string, holder: string | null) {
    super(
      `the data directory ${dataDir} is in use by another Millrace${holder ? ` (process ${holder})` : ""}: ` +
        "stop that one, or choose another directory with MILLRACE_DATA_DIR",
    );
    this.name = "DirectoryInUseError";
  }
}

/** A service that is being killed, or whose parent was killed, ends within this time. */
const DYING_MS = 2_000;

/** Held from `lockDirectory` to `release`, or to the end of the process, however it ends. */
export type DirectoryLock = { release(): void };

/**
 * Locks the data directory for this process, and creates it if necessary. Throws `DirectoryInUseError` if another process
 * has the lock, and `UnreleasedFormat`, without any change, for a directory from before the first release. The lock is an
 * exclusive SQLite transaction that is never committed: the kernel releases it when the process ends, even in a crash.
 */
export function lockDirectory(dataDir: string): DirectoryLock {
  requireReleased(dataDir);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const holderPath = join(dataDir, "lock.pid");
  // Nothing else may open lock.db: closing any descriptor of a file frees a process's locks on it.
  const database = new DatabaseSync(join(dataDir, "lock.db"), { timeout: DYING_MS });
  try {
    database.exec("begin exclusive");
  } catch (error) {
    database.close();
    if (isBusy(error)) throw new DirectoryInUseError(dataDir, lockHolder(dataDir));
    throw error;
  }
  // Only for messages: the lock is the transaction.
  writeFileSync(holderPath, `${process.pid}\n`, { mode: 0o600 });
  return {
    release: () => {
      if (!database.isOpen) return;
      rmSync(holderPath, { force: true });
      database.close();
    },
  };
}

/** Throws `UnreleasedFormat` if the directory has a SQLite database from before the first release; changes nothing. */
export function requireReleased(dataDir: string): void {
  const file = join(dataDir, DATABASE_FILE);
  if (existsSync(file) && isUnreleased(migrationsIn(file)))
    throw new UnreleasedFormat(`the database ${file}`);
}

/** Empty if the file is new or cannot be read; opening it for use reports the reason. */
function migrationsIn(file: string): string[] {
  const url = pathToFileURL(file);
  // Without a log, no process has the file open, and SQLite would create one to read the file. An existing log is read and
  // kept: a read-only connection does not checkpoint it.
  if (!existsSync(`${file}-wal`)) url.searchParams.set("immutable", "1");
  try {
    const database = new DatabaseSync(url, { readOnly: true });
    try {
      const rows = database.prepare("select name from migrations").all();
      return rows.map(({ name }) => String(name));
    } finally {
      database.close();
    }
  } catch {
    return [];
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === 5;
}

/** The process id of the directory's latest holder, which may have ended. */
export function lockHolder(dataDir: string): string | null {
  try {
    return readFileSync(join(dataDir, "lock.pid"), "utf8").trim() || null;
  } catch {
    return null;
  }
}
