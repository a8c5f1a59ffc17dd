import { type Kysely, type RawBuilder, sql } from "kysely";
import { blobStarts, type ColumnBatch, columnNames } from "../column-batch.ts";
import { ROLLED_COLUMNS, rolledUpSql } from "../usage/roll-up.ts";
import type { ColumnInsert, ColumnWriter, Schema, Written } from "../operation.ts";

/** A column batch in the form of a table that a statement can read. */
type ColumnTable = {
  /** For `from`: the rows as `u`, with their `ordinal` in the batch, from 1. */
  readonly source: RawBuilder<unknown>;
  /** A column's value in such a row. */
  readonly valueOf: (name: string) => RawBuilder<unknown>;
};

/** One array a column, however many rows there are; the blobs are one parameter, sent as the bytes they are. */
function columnTable(batch: ColumnBatch): ColumnTable {
  const { blobs } = batch;
  const arrays = arraysOf(batch);
  const names = sql.join([...arrays.map(({ name }) => sql.ref(name)), sql.ref("ordinal")]);
  const values = sql.join(arrays.map(({ type, literal }) => sql`${literal}::${sql.raw(type)}`));
  const rows = sql`unnest(${values}) with ordinality as u (${names})`;
  const field = (name: string) => sql.ref(`u.${name}`);
  return {
    source: blobs.names.length === 0 ? rows : sql`${rows}, (select ${blobs.bytes}::bytea as bytes) as b`,
    valueOf: (name) =>
      blobs.names.includes(name)
        ? sql`substring(b.bytes from ${field(`${name}Start`)} for ${field(`${name}Length`)})`
        : field(name),
  };
}

type PostgresArray = { readonly name: string; readonly type: string; readonly literal: string };

/** A batch as arrays in text form. Written here because `pg` would escape each text again for every row. */
export function arraysOf({ rowCount, numbers, texts, uuids, blobs }: ColumnBatch): PostgresArray[] {
  const quoted = ["NULL", ...texts.values.map(quote)];
  const starts = blobStarts(blobs);
  const suffixed = (suffix: string) => blobs.names.map((name) => name + suffix);
  const hex = Buffer.from(uuids.bytes.buffer, uuids.bytes.byteOffset, uuids.bytes.length).toString("hex");
  const arrays = (names: readonly string[], type: string, elementAt: (i: number) => string | number) =>
    names.map((name, column) => {
      const elements = Array.from({ length: rowCount }, (_, row) => elementAt(row * names.length + column));
      return { name, type, literal: `{${elements.join()}}` };
    });
  return [
    ...arrays(numbers.names, "float8[]", (i) =>
      Number.isNaN(numbers.values[i]) ? "NULL" : numbers.values[i]!,
    ),
    ...arrays(texts.names, "text[]", (i) => quoted[texts.codes[i]!]!),
    ...arrays(uuids.names, "bytea[]", (i) => `"\\\\x${hex.slice(i * 32, i * 32 + 32)}"`),
    // Where each blob begins, from 1, and how long it is.
    ...arrays(suffixed("Start"), "integer[]", (i) => (blobs.lengths[i]! < 0 ? "NULL" : starts[i]! + 1)),
    ...arrays(suffixed("Length"), "integer[]", (i) => (blobs.lengths[i]! < 0 ? "NULL" : blobs.lengths[i]!)),
  ];
}

function quote(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** The row of `usage` that a connection adds to. */
export const USAGE_SLOT = sql<number>`pg_backend_pid() % 16`;

/** Writes column batches in one statement each, however many rows there are. */
export function columnWriter(db: Kysely<Schema>): ColumnWriter {
  return {
    insertColumns: async (table, batch, counted = []) => {
      const { rows } = await sql<Written>`
        with written as (${insertSql({ table, batch, counted })})
        select count(*) as rows, coalesce(sum(size), 0)::bigint as bytes from written
      `.execute(db);
      return rows[0]!;
    },
    insertCounted: async (inserts) => {
      const written = (i: number) => sql.table(`written${i}`);
      const counts = inserts.map(({ table }, i) => {
        const runs = table === "runs" ? sql`count(*)` : sql`0`;
        return sql`select ${runs} as runs, coalesce(sum(size), 0) as bytes from ${written(i)}`;
      });
      const ended = inserts.flatMap(({ haveEnded }, i) => (haveEnded ? i : []));
      const rolled = (i: number) => sql.table(`rolled${i}`);
      // Named here, so that the sums of days are locked before the row of `usage`, as in every other write.
      const sums = ended.map((i) => sql`select 0 as runs, 0 as bytes from ${rolled(i)}`);
      const steps = [
        ...inserts.map((insert, i) => sql`${written(i)} as (${insertSql(insert)})`),
        ...ended.map((i) => sql`${rolled(i)} as (${rolledUpSql(sql, written(i))})`),
      ];
      await sql`
        with ${sql.join(steps)},
          added as (select sum(runs) as runs, sum(bytes) as bytes from (${sql.join([...counts, ...sums], sql` union all `)}) as each)
        update usage set runs = usage.runs + added.runs, bytes = usage.bytes + added.bytes
        from added where slot = ${USAGE_SLOT}
      `.execute(db);
    },
    updateColumns: async (table, batch, { match, where = {}, set = {} }) => {
      const { source, valueOf } = columnTable(batch);
      const own = (name: string) => sql.ref(`${table}.${name}`);
      const integers = new Set(batch.numbers.names);
      // Numbers travel as floats, and comparing those with integers would pass every index by.
      const matches = match.map((name) =>
        integers.has(name)
          ? sql`${own(name)} = ${valueOf(name)}::bigint`
          : sql`${own(name)} = ${valueOf(name)}`,
      );
      const conditions = Object.entries(where).map(([name, value]) => sql`${own(name)} = ${sql.lit(value)}`);
      const changes = [
        ...columnNames(batch)
          .filter((name) => !match.includes(name))
          .map((name) => sql`${sql.ref(name)} = ${valueOf(name)}`),
        ...Object.entries(set).map(([name, value]) => sql`${sql.ref(name)} = ${sql.lit(value)}`),
      ];
      const { rows } = await sql<{ ordinal: number }>`
        update ${sql.table(table)} set ${sql.join(changes)} from ${source}
        where ${sql.join([...matches, ...conditions], sql` and `)}
        returning u.ordinal - 1 as ordinal
      `.execute(db);
      return rows.map(({ ordinal }) => ordinal).toSorted((a, b) => a - b);
    },
  };
}

/** Returns a row for each inserted one, with the bytes of its counted columns. */
function insertSql({ table, batch, counted = [], haveEnded }: ColumnInsert): RawBuilder<unknown> {
  const { source, valueOf } = columnTable(batch);
  const names = columnNames(batch);
  const sizes = counted.map((name) =>
    batch.blobs.names.includes(name)
      ? sql`coalesce(length(${sql.ref(name)}), 0)`
      : sql`coalesce(${sql.ref(name)}, 0)`,
  );
  const also = haveEnded ? sql`, ${sql.join(ROLLED_COLUMNS.map((name) => sql.ref(name)))}` : sql``;
  return sql`
    insert into ${sql.table(table)} (${sql.join(names.map((name) => sql.ref(name)))})
    select ${sql.join(names.map(valueOf))} from ${source}
    on conflict do nothing
    returning ${sizes.length === 0 ? sql`0` : sql.join(sizes, sql` + `)} as size ${also}
  `;
}
