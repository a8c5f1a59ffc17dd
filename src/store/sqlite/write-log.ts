import { statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import type { WriteLog } from "../operation.ts";
import { BUSY_MS } from "./connection.ts";

/** The write-ahead log of the database at that path; only the writer can checkpoint it. */
export function writeLog(database: DatabaseSync, path: string): WriteLog {
  return {
    bytes: () => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    fold: () => {
      // Every write waits behind it, so it does not wait for readers.
      database.exec("pragma busy_timeout = 0");
      try {
        database.exec("pragma wal_checkpoint(truncate)");
      } finally {
        database.exec(`pragma busy_timeout = ${BUSY_MS}`);
      }
    },
  };
}
