import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { CamelCasePlugin, Kysely, SqliteDialect } from "kysely";
import type { SqliteStatement } from "kysely";
import { threadsMs } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import type { Schema } from "../schema.ts";

const RETRY = { headers: { "retry-after": "5" } };

// More than all operations have; a bound, in case one makes its statement from its input.
const CACHED_STATEMENTS = 256;

/** After which no statement begins, by `threadsMs`; null where time does not matter. */
export type Deadline = { atMs: number | null };

/** Kysely over `node:sqlite`, each statement prepared once. Throws `query_timeout` past the deadline. */
export function createKysely(database: DatabaseSync, deadline: Deadline = { atMs: null }): Kysely<Schema> {
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

/** Gives a statement of `node:sqlite` the form that Kysely's dialect knows. */
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
