import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnBatch } from "../column-batch.ts";
import type { Session } from "../operation.ts";
import type { Schema } from "../schema.ts";

/** Writes column batches with one prepared statement a table, run once a row. */
export function columnInserter(database: DatabaseSync, db: Kysely<Schema>): Session["insertColumns"] {
  const statements = new Map<keyof Schema, StatementSync>();
  return async (table, batch) => {
    let statement = statements.get(table);
    if (!statement) {
      statement = database.prepare(insertSql(db, table, batch));
      statements.set(table, statement);
    }
    for (const values of rowsOf(batch)) statement.run(...values);
  };
}

function insertSql(db: Kysely<Schema>, table: string, { numbers, texts, uuids }: ColumnBatch): string {
  const names = [...numbers.names, ...texts.names, ...uuids.names];
  const columns = sql.join(names.map((name) => sql.ref(name)));
  const places = sql.join(names.map(() => sql.raw("?")));
  const insert = sql`insert into ${sql.table(table)} (${columns}) values (${places}) on conflict do nothing`;
  return insert.compile(db).sql;
}

/** Each row's values in turn, in one array that is used again for the next. */
function* rowsOf({ rowCount, numbers, texts, uuids }: ColumnBatch): Generator<readonly SQLInputValue[]> {
  const bytes = Buffer.from(uuids.text.replaceAll("-", ""), "hex");
  const texted = [null, ...texts.values];
  const values: SQLInputValue[] = [];
  for (let row = 0; row < rowCount; row++) {
    let i = 0;
    for (let at = row; at < numbers.values.length; at += rowCount) {
      const value = numbers.values[at]!;
      values[i++] = Number.isNaN(value) ? null : value;
    }
    for (let at = row; at < texts.codes.length; at += rowCount) values[i++] = texted[texts.codes[at]!]!;
    for (let at = row * 16; at < bytes.length; at += rowCount * 16) values[i++] = bytes.subarray(at, at + 16);
    yield values;
  }
}
