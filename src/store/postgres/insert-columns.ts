import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnBatch } from "../column-batch.ts";
import type { Session } from "../operation.ts";
import type { Schema } from "../schema.ts";

/** Writes column batches in one statement with one array a column, however many rows there are. */
export function columnInserter(db: Kysely<Schema>): Session["insertColumns"] {
  return async (table, batch) => {
    const arrays = arraysOf(batch);
    const names = sql.join(arrays.map(({ name }) => sql.ref(name)));
    const values = sql.join(arrays.map(({ type, literal }) => sql`${literal}::${sql.raw(type)}`));
    await sql`
      insert into ${sql.table(table)} (${names}) select * from unnest(${values}) on conflict do nothing
    `.execute(db);
  };
}

type PostgresArray = { readonly name: string; readonly type: string; readonly literal: string };

/** A batch as arrays in text form. Written here because `pg` would escape each text again for every row. */
export function arraysOf({ rowCount, numbers, texts, uuids }: ColumnBatch): PostgresArray[] {
  const quoted = ["NULL", ...texts.values.map(quote)];
  const hex = uuids.text.replaceAll("-", "");
  const array = (name: string, type: string, column: number, elementAt: (i: number) => string | number) => ({
    name,
    type,
    literal: `{${Array.from({ length: rowCount }, (_, row) => elementAt(column * rowCount + row)).join()}}`,
  });
  return [
    ...numbers.names.map((name, column) =>
      array(name, "float8[]", column, (i) => (Number.isNaN(numbers.values[i]) ? "NULL" : numbers.values[i]!)),
    ),
    ...texts.names.map((name, column) => array(name, "text[]", column, (i) => quoted[texts.codes[i]!]!)),
    ...uuids.names.map((name, column) =>
      array(name, "bytea[]", column, (i) => `"\\\\x${hex.slice(i * 32, i * 32 + 32)}"`),
    ),
  ];
}

function quote(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
