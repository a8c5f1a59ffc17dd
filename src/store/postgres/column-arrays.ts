import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import type { BlobColumns, ColumnBatch } from "../column-batch.ts";

/** A column batch in the form of a table that a statement can read. */
export type ColumnTable = {
  /** What stands after `from`: the rows as `u`, with their `ordinal` in the batch, from 1. */
  readonly source: RawBuilder<unknown>;
  /** A column's value in such a row. */
  readonly valueOf: (name: string) => RawBuilder<unknown>;
};

/** One array a column, however many rows there are; the blobs are one parameter, sent as the bytes they are. */
export function columnTable(batch: ColumnBatch): ColumnTable {
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
    ...blobArrays(blobs),
  ];
}

/** Where each blob begins, from 1, and how long it is; null where there is none. */
function blobArrays({ names, lengths }: BlobColumns): PostgresArray[] {
  const columns = names.map((name) => ({
    name,
    starts: [] as (number | "NULL")[],
    lengths: [] as (number | "NULL")[],
  }));
  let start = 1;
  for (const [i, length] of lengths.entries()) {
    const column = columns[i % names.length]!;
    column.starts.push(length < 0 ? "NULL" : start);
    column.lengths.push(length < 0 ? "NULL" : length);
    start += Math.max(0, length);
  }
  return columns.flatMap(({ name, starts, lengths }) => [
    { name: `${name}Start`, type: "integer[]", literal: `{${starts.join()}}` },
    { name: `${name}Length`, type: "integer[]", literal: `{${lengths.join()}}` },
  ]);
}

function quote(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
