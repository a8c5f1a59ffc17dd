import { chmodSync, closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { enableVacuum } from "./vacuum.ts";

/** Another process may have the file for this long. */
export const BUSY_MS = 5_000;

const PRAGMAS = {
  // First: the others may have to wait too.
  busy_timeout: BUSY_MS,
  // Readers never wait for the writer, nor it for them.
  journal_mode: "wal",
  // FULL: a commit has reached the disk when it returns.
  synchronous: 2,
  foreign_keys: 1,
  // MEMORY: what a savepoint may have to take back. In a file it was 280 writes for 200 runs, beside 90 of the log.
  temp_store: 2,
} as const;

// The log is cut back to this after a burst, instead of staying as long as it ever was.
const WAL_LIMIT_BYTES = 64 * 1024 * 1024;

/** Opens the database for its only writer, readable by its owner alone, making it if there is none. */
export function openForWriting(path: string): DatabaseSync {
  makePrivate(path);
  const database = new DatabaseSync(path);
  enableVacuum(database);
  configure(database);
  database.exec(`pragma journal_size_limit = ${WAL_LIMIT_BYTES}`);
  return database;
}

/** SQLite gives its log files the mode of the database file, so that file is made before SQLite would. */
function makePrivate(path: string): void {
  try {
    // Only a new file is opened here: closing one that is in use drops this process's locks on it.
    closeSync(openSync(path, "ax", 0o600));
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    chmodSync(path, 0o600);
  }
}

/** Opens the database for reading; it must have been opened for writing before. */
export function openForReading(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { readOnly: true });
  configure(database);
  return database;
}

/**
 * Opens a database that nobody else has open, as it is. Not as a file that cannot be written: after a crash there is a
 * log to be read, and closing would leave one behind.
 */
export function openToLook(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  database.exec(`pragma busy_timeout = ${BUSY_MS}; pragma query_only = 1`);
  return database;
}

/** Sets what our promises rest on, and throws if SQLite did not take it. */
export function configure(database: DatabaseSync): void {
  for (const [name, wanted] of Object.entries(PRAGMAS)) {
    database.exec(`pragma ${name} = ${wanted}`);
    const actual = Object.values(database.prepare(`pragma ${name}`).get() ?? {})[0];
    if (actual === wanted) continue;
    database.close();
    throw new Error(
      `SQLite has ${name} = ${String(actual)} where ${wanted} is needed: use a local file system, or Postgres`,
    );
  }
}
