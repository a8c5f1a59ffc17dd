import type { DatabaseSync, StatementSync } from "node:sqlite";
import { sql } from "kysely";
import type { Kysely } from "kysely";
import { columnNames } from "../column-batch.ts";
import type { ColumnChange, ColumnInsert, Session, Written } from "../operation.ts";
import { addUsage } from "../usage.ts";
import type { Schema } from "../schema.ts";
import { columnRows } from "./column-rows.ts";

/** The one row of `usage`. */
export const USAGE_SLOT = sql<number>`0`;

/** Writes column batches with one prepared statement for each table and set of columns, run once a row. */
export function columnWriter(
  database: DatabaseSync,
  db: Kysely<Schema>,
): Pick<Session, "insertColumns" | "insertCounted" | "updateColumns"> {
  const statements = new Map<string, StatementSync>();
  const prepared = (key: string, compile: () => string): StatementSync => {
    let statement = statements.get(key);
    if (!statement) {
      statement = database.prepare(compile());
      statements.set(key, statement);
    }
    return statement;
  };
  const insert = ({ table, batch, counted = [] }: ColumnInsert): Written => {
    const names = columnNames(batch);
    const statement = prepared(`${table} ${names.join()}`, () => insertSql(db, table, names));
    const countedAt = counted.map((name) => batch.blobs.names.indexOf(name));
    let rows = 0;
    let bytes = 0;
    let row = 0;
    for (const values of columnRows(batch)) {
      const { changes } = statement.run(...values);
      if (changes === 1) {
        rows += 1;
        for (const at of countedAt)
          bytes += Math.max(0, batch.blobs.lengths[row * batch.blobs.names.length + at]!);
      }
      row += 1;
    }
    return { rows, bytes };
  };
  return {
    insertColumns: async (table, batch, counted = []) => insert({ table, batch, counted }),
    insertCounted: async (inserts) => {
      const written = inserts.map((one) => ({ ...insert(one), isRuns: one.table === "runs" }));
      const runs = written.reduce((sum, { rows, isRuns }) => sum + (isRuns ? rows : 0), 0);
      const bytes = written.reduce((sum, one) => sum + one.bytes, 0);
      await addUsage({ db, usageSlot: USAGE_SLOT }, { runs, bytes });
    },
    updateColumns: async (table, batch, change) => {
      const names = columnNames(batch);
      const key = `${table} ${names.join()} ${JSON.stringify(change)}`;
      const statement = prepared(key, () => updateSql(db, table, names, change));
      const changed: number[] = [];
      let row = 0;
      for (const values of columnRows(batch)) {
        if (statement.run(...values).changes === 1) changed.push(row);
        row += 1;
      }
      return changed;
    },
  };
}

function insertSql(db: Kysely<Schema>, table: string, names: readonly string[]): string {
  const columns = sql.join(names.map((name) => sql.ref(name)));
  const places = sql.join(names.map(() => sql.raw("?")));
  const insert = sql`insert into ${sql.table(table)} (${columns}) values (${places}) on conflict do nothing`;
  return insert.compile(db).sql;
}

function updateSql(
  db: Kysely<Schema>,
  table: string,
  names: readonly string[],
  { match, where = {}, set = {} }: ColumnChange,
): string {
  const equals = (isMatch: boolean) =>
    names.flatMap((name, i) =>
      match.includes(name) === isMatch ? [sql`${sql.ref(name)} = ${sql.raw(`?${i + 1}`)}`] : [],
    );
  const constants = (values: Readonly<Record<string, number | null>>) =>
    Object.entries(values).map(([name, value]) => sql`${sql.ref(name)} = ${sql.lit(value)}`);
  const changes = sql.join([...equals(false), ...constants(set)]);
  const conditions = sql.join([...equals(true), ...constants(where)], sql` and `);
  return sql`update ${sql.table(table)} set ${changes} where ${conditions}`.compile(db).sql;
}
