import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { CamelCasePlugin, Kysely, sql, SqliteDialect, type SqliteStatement } from "kysely";
import { threadsMs } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import type { Schema, Session } from "../operation.ts";
import { migrate, type Migrations } from "../schema/migrate.ts";
import { SQLITE_DIALECT } from "../schema/tables.ts";
import { fileUpkeep, identify, isSame, openForReading, openForWriting, openToLook } from "./connection.ts";
import type { ThreadMode } from "./messages.ts";
import { columnWriter, USAGE_SLOT } from "./write-columns.ts";

const RETRY = { headers: { "retry-after": "5" } };

// More than all operations have; a bound, in case one makes its statement from its input.
const CACHED_STATEMENTS = 256;

/** After which no statement begins, by `threadsMs`; null where time does not matter. */
type Deadline = { atMs: number | null };

/** Kysely over `node:sqlite`, each statement prepared once. Throws `query_timeout` past the deadline. */
function createKysely(database: DatabaseSync, deadline: Deadline): Kysely<Schema> {
  const statements = new Map<string, SqliteStatement>();
  const prepare = (sql: string): SqliteStatement => {
    let statement = statements.get(sql);
    if (!statement) {
      if (statements.size === CACHED_STATEMENTS) statements.clear();
      statement = adapt(database.prepare(sql), deadline);
      statements.set(sql, statement);
    }
    return statement;
  };
  return new Kysely<Schema>({
    dialect: new SqliteDialect({ database: { prepare, close: () => database.close() } }),
    plugins: [new CamelCasePlugin()],
  });
}

/** Adapts a statement of `node:sqlite` to Kysely's dialect. */
function adapt(statement: StatementSync, deadline: Deadline): SqliteStatement {
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => {
      if (deadline.atMs !== null && threadsMs() > deadline.atMs) throw new AppError("query_timeout", RETRY);
      return statement.all(...(parameters as SQLInputValue[]));
    },
    run: (parameters) => statement.run(...(parameters as SQLInputValue[])),
    iterate: (parameters) => statement.iterate(...(parameters as SQLInputValue[])),
  };
}

/** A session with the connection it works on. */
export type SqliteSession = Session & {
  readonly database: DatabaseSync;
  /** Past it no further statement is begun: each one looks at a bounded number of rows. */
  readonly deadline: Deadline;
  /** Whether the open files are still those at the database's path. */
  readonly isInPlace: () => boolean;
};

const OPENERS = { write: openForWriting, read: openForReading, look: openToLook } as const;

/** Opens the database; the writer brings it to this release's schema first. */
export async function openSession(mode: ThreadMode, path: string, migrations?: Migrations) {
  const database = OPENERS[mode](path);
  const deadline: Deadline = { atMs: null };
  const db = createKysely(database, deadline);
  if (mode === "write") {
    // One transaction by hand: Kysely's own begins as a reader, and may lose the race to become the writer.
    database.exec("begin immediate");
    try {
      await migrate(db, { dialect: SQLITE_DIALECT, migrations, disableTransactions: true });
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
    files: fileUpkeep(database, path),
    // The writer is alone.
    skipLocked: () => sql``,
    shareLock: sql``,
    ...columnWriter(database, db),
  };
}
