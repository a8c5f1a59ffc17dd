import { type Generated, type Kysely, sql } from "kysely";

/**
 * Tables by name. Names are camelCase in the code and snake_case in the database. Migrations that have been released
 * use this file, so what it makes of a declaration never changes.
 */
export type Tables = Readonly<Record<string, Columns & Options>>;

/**
 * For each column a word of `Dialect`, with a question mark if it may be null, and what SQL says after that. Times are
 * epoch milliseconds, flags 0 or 1, states their place in the model's list, and UUIDs their 16 bytes (which saves 28 of a
 * run's 186 bytes).
 */
type Columns = { readonly [name: string]: Options[keyof Options] };

/** No column has one of these names. */
type Options = {
  readonly constraint?: string;
  /** Stored in the order of its primary key, if the database can. */
  readonly isInKeyOrder?: true;
  /** Each with its columns and condition; `unique` comes first. */
  readonly indexes?: readonly string[];
};

/** The values of a column of each type. */
type Values = {
  text: string;
  integer: number;
  /** A time, or a number of bytes. */
  bigint: number;
  /** A state, a flag or an HTTP status. */
  smallint: number;
  double: number;
  bytes: Uint8Array;
  /** A key that counts up and is never given twice. */
  counter: Generated<number>;
  bigCounter: Generated<number>;
  transaction: Generated<unknown>;
};

/** How a database calls the types. */
export type Dialect = Readonly<Record<keyof Values, string>> & {
  readonly kind: "sqlite" | "postgres";
  /** The end of each table's statement, and of that of one in key order. */
  readonly tableEnd: string;
  readonly keyOrderEnd: string;
};

export const SQLITE_DIALECT: Dialect = {
  kind: "sqlite",
  text: "text",
  integer: "integer",
  bigint: "integer",
  smallint: "integer",
  double: "real",
  bytes: "blob",
  counter: "integer primary key autoincrement",
  bigCounter: "integer primary key autoincrement",
  transaction: "integer default 0",
  tableEnd: "strict",
  keyOrderEnd: "strict, without rowid",
};

export const POSTGRES_DIALECT: Dialect = {
  kind: "postgres",
  text: "text",
  integer: "integer",
  bigint: "bigint",
  smallint: "smallint",
  double: "double precision",
  bytes: "bytea",
  counter: "integer generated always as identity primary key",
  bigCounter: "bigint generated always as identity primary key",
  transaction: "xid8 default pg_current_xact_id()",
  tableEnd: "",
  keyOrderEnd: "",
};

/** The tables as Kysely sees them. */
export type TypesOf<Declared extends Tables> = {
  [Name in keyof Declared]: {
    -readonly [Column in Exclude<keyof Declared[Name], keyof Options>]: TypeOf<Declared[Name][Column]>;
  };
};

type TypeOf<Column> = Column extends `${infer Word} ${infer Rest}`
  ? Rest extends `${string}default ${string}`
    ? Generated<ValueOf<Word>>
    : ValueOf<Word>
  : ValueOf<Column>;

type ValueOf<Word> = Word extends `${infer Name extends keyof Values}?`
  ? Values[Name] | null
  : Word extends keyof Values
    ? Values[Word]
    : never;

/** Creates tables and their indexes. */
export async function createTables(db: Kysely<unknown>, dialect: Dialect, tables: Tables): Promise<void> {
  for (const statement of statementsFor(dialect, tables)) await sql.raw(statement).execute(db);
}

/** Adds columns to tables, and their indexes. Each may be null or has a default, because services of the release before go on beside it. */
export async function addColumns(db: Kysely<unknown>, dialect: Dialect, tables: Tables): Promise<void> {
  for (const statement of columnStatements(dialect, tables)) await sql.raw(statement).execute(db);
}

/** The statements that add them. */
export function columnStatements(dialect: Dialect, tables: Tables): string[] {
  return Object.entries(tables).flatMap(([name, { indexes = [], ...columns }]) => [
    ...Object.entries(columns).map(
      ([column, text]) =>
        `alter table ${snakeCase(name)} add column ${snakeCase(column)} ${typed(String(text), dialect)}`,
    ),
    ...indexes.map((index) => indexStatement(snakeCase(name), index)),
  ]);
}

/** The statements that create them. */
export function statementsFor(dialect: Dialect, tables: Tables): string[] {
  return Object.entries(tables).flatMap(([name, declared]) => {
    const { constraint = [], isInKeyOrder, indexes = [], ...columns } = declared;
    const table = snakeCase(name);
    const parts = Object.entries(columns).map(
      ([column, text]) => `${snakeCase(column)} ${typed(String(text), dialect)}`,
    );
    const end = isInKeyOrder ? dialect.keyOrderEnd : dialect.tableEnd;
    return [
      `create table ${table} (${parts.concat(constraint).join(", ")}) ${end}`,
      ...indexes.map((index) => indexStatement(table, index)),
    ];
  });
}

function indexStatement(table: string, index: string): string {
  return index.replace(INDEX, `create $1index $2 on ${table} $3`);
}

const INDEX = /^(unique )?(\w+) (.*)$/;

/** The objects that tables create: `column table.name` and `index name`. */
export function objectsOf(tables: Tables): string[] {
  return Object.entries(tables).flatMap(([name, declared]) => {
    const { constraint: _constraint, isInKeyOrder: _isInKeyOrder, indexes = [], ...columns } = declared;
    return [
      ...Object.keys(columns).map((column) => `column ${snakeCase(name)}.${snakeCase(column)}`),
      ...indexes.map((index) => `index ${INDEX.exec(index)![2]}`),
    ];
  });
}

function typed(column: string, dialect: Dialect): string {
  const [word = "", ...rest] = column.split(" ");
  const type = dialect[word.replace("?", "") as keyof Values];
  const isNullable = word.endsWith("?") || type.includes("primary key");
  return [type, ...(isNullable ? [] : ["not null"]), ...rest].join(" ");
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
