import { statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import type { WriteLog } from "../operation.ts";
import { BUSY_MS } from "./connection.ts";

/** The log beside the database of that path; only who writes can fold it. */
export function writeLog(database: DatabaseSync, path: string): WriteLog {
  return {
    bytes: () => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    fold: () => {
      // Every write waits behind it: somebody who reads is not waited for.
      database.exec("pragma busy_timeout = 0");
      try {
        database.exec("pragma wal_checkpoint(truncate)");
      } finally {
        database.exec(`pragma busy_timeout = ${BUSY_MS}`);
      }
    },
  };
}
