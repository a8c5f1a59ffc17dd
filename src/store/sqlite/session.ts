import type { DatabaseSync } from "node:sqlite";
import { sql } from "kysely";
import { migrate } from "../migrate.ts";
import type { Migrations } from "../migrate.ts";
import { SQLITE_TYPES } from "../migrations/column-types.ts";
import type { Session } from "../operation.ts";
import { identify, isSame } from "./file-identity.ts";
import { findDamage } from "./find-damage.ts";
import { openForReading, openForWriting, openToLook } from "./connection.ts";
import type { ThreadMode } from "./messages.ts";
import { freeBytes, giveBack } from "./vacuum.ts";
import { createKysely } from "./dialect.ts";
import { writeLog } from "./write-log.ts";
import type { Deadline } from "./dialect.ts";
import { USAGE_SLOT, columnWriter } from "./write-columns.ts";

/** A session with the connection it works on. */
export type SqliteSession = Session & {
  readonly database: DatabaseSync;
  /** Past it no further statement is begun: each one looks at a bounded number of rows. */
  readonly deadline: Deadline;
  /** Whether what is written is where the next service will look for it. */
  readonly isInPlace: () => boolean;
};

const OPENERS = { write: openForWriting, read: openForReading, look: openToLook } as const;

/** Opens the database; the writer brings it to this release's schema first. */
export async function openSession(
  mode: ThreadMode,
  path: string,
  migrations?: Migrations,
): Promise<SqliteSession> {
  const database = OPENERS[mode](path);
  const deadline: Deadline = { atMs: null };
  const db = createKysely(database, deadline);
  if (mode === "write") {
    // One transaction by hand: Kysely's own begins as a reader, and may lose the race to become the writer.
    database.exec("begin immediate");
    try {
      await migrate(db, { types: SQLITE_TYPES, migrations, disableTransactions: true });
      database.exec("commit");
    } catch (error) {
      database.close();
      throw error;
    }
  }
  const identity = identify(path);
  return {
    database,
    deadline,
    isInPlace: () => identity !== null && isSame(identity, identify(path)),
    db,
    sql,
    databaseNow: sql<number>`cast(unixepoch('subsec') * 1000 as integer)`,
    tellOthers: null,
    usageSlot: USAGE_SLOT,
    freeBytes: () => freeBytes(database),
    giveBack: (maxBytes) => giveBack(database, maxBytes),
    findDamage: (table) => findDamage(database, table),
    log: writeLog(database, path),
    // The writer is alone.
    skipLocked: () => sql``,
    shareLock: sql``,
    ...columnWriter(database, db),
  };
}
