import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { CamelCasePlugin, Kysely, SqliteDialect } from "kysely";
import type { SqliteStatement } from "kysely";
import type { Schema } from "../schema.ts";

// More than all operations have; a bound, in case one makes its statement from its input.
const CACHED_STATEMENTS = 256;

/** Kysely over `node:sqlite`, each statement prepared once. */
export function createKysely(database: DatabaseSync): Kysely<Schema> {
  const statements = new Map<string, SqliteStatement>();
  const prepare = (sql: string): SqliteStatement => {
    let statement = statements.get(sql);
    if (!statement) {
      if (statements.size === CACHED_STATEMENTS) statements.clear();
      statement = adapt(database.prepare(sql));
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
function adapt(statement: StatementSync): SqliteStatement {
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...(parameters as SQLInputValue[])),
    run: (parameters) => statement.run(...(parameters as SQLInputValue[])),
    iterate: (parameters) => statement.iterate(...(parameters as SQLInputValue[])),
  };
}
