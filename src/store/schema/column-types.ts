import { sql } from "kysely";
import type { ColumnDataType, RawBuilder } from "kysely";

type DataType = ColumnDataType | RawBuilder<unknown>;

/** What the two databases call the same thing. Fragments are added here, never changed: old migrations use them. */
export type ColumnTypes = {
  readonly kind: "sqlite" | "postgres";
  /** Epoch milliseconds. */
  readonly time: DataType;
  readonly span: DataType;
  readonly bytes: DataType;
  /** A state, a flag, an HTTP status. */
  readonly small: DataType;
  /** A key that counts up and is never given twice. */
  readonly counter: RawBuilder<unknown>;
  /** At the end of every table. */
  readonly table: RawBuilder<unknown>;
  /** At the end of a table that is stored in the order of its primary key, where the database can. */
  readonly tableInKeyOrder: RawBuilder<unknown>;
};

export const SQLITE_TYPES: ColumnTypes = {
  kind: "sqlite",
  time: "integer",
  span: "real",
  bytes: "blob",
  small: "integer",
  counter: sql`integer primary key autoincrement`,
  table: sql`strict`,
  tableInKeyOrder: sql`strict, without rowid`,
};

export const POSTGRES_TYPES: ColumnTypes = {
  kind: "postgres",
  time: "bigint",
  span: "double precision",
  bytes: "bytea",
  small: "smallint",
  counter: sql`integer generated always as identity primary key`,
  table: sql``,
  tableInKeyOrder: sql``,
};
