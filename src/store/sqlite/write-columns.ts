import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { type Kysely, sql } from "kysely";
import type { ColumnChange, ColumnWriter, Schema } from "../operation.ts";
import { type BatchColumn, batchColumns, bytesIn, type ColumnBatch } from "../column-batch.ts";
import { type DailyUse, rollUp, upsertUses, USE_COLUMNS } from "../usage/roll-up.ts";

/** The one row of `usage`. */
export const USAGE_SLOT = sql<number>`0`;

/** Rows of one insert; common values are bound once: a run with its payload takes 4.8 µs, 7.4 in its own statement. */
const CHUNK_ROWS = 20;
/** Which columns repeat makes a statement of its own: a bound, should a database ever see all kinds of batches. */
const MAX_STATEMENTS = 200;

/** A statement, as Kysely has it. */
type Compilable = { compile(db: Kysely<Schema>): { readonly sql: string } };

/** Writes column batches with statements that are prepared once. */
export function columnWriter(database: DatabaseSync, db: Kysely<Schema>): ColumnWriter {
  const statements = new Map<string, StatementSync>();
  const prepared = (key: string, compile: () => Compilable): StatementSync => {
    let statement = statements.get(key);
    if (!statement) {
      if (statements.size >= MAX_STATEMENTS) statements.clear();
      statement = database.prepare(compile().compile(db).sql);
      statements.set(key, statement);
    }
    return statement;
  };

  /** Inserts row by row; returns which were new. */
  const insertRows = (table: string, columns: readonly BatchColumn[], from: number, to: number): number[] => {
    const names = columns.map(({ name }) => name);
    const statement = prepared(`insert ${table} ${names.join()}`, () => insertSql(table, names, names, 1));
    return runForEach(statement, columns, from, to);
  };

  /** Many rows at a time; false, with nothing written, if one of them already exists. */
  const insertNew = (table: string, columns: readonly BatchColumn[], rowCount: number): boolean => {
    const constant = columns.filter(({ isConstant }) => isConstant);
    const varying = columns.filter(({ isConstant }) => !isConstant);
    const names = [...constant, ...varying].map(({ name }) => name);
    const varyingNames = names.slice(constant.length);
    const statement = prepared(`insert ${table} ${names.join()} ${varying.length}`, () =>
      insertSql(table, names, varyingNames, CHUNK_ROWS),
    );
    const values = constant.map(({ valueAt }) => valueAt(0));
    const readers = varying.map(({ valueAt }) => valueAt);
    const chunked = rowCount - (rowCount % CHUNK_ROWS);
    let written = 0;
    database.exec("savepoint rows");
    for (let row = 0; row < chunked;) {
      let i = constant.length;
      for (const end = row + CHUNK_ROWS; row < end; row++) {
        for (let column = 0; column < readers.length; column++) values[i++] = readers[column]!(row);
      }
      written += Number(statement.run(...values).changes);
    }
    if (written === chunked) written += insertRows(table, columns, chunked, rowCount).length;
    if (written < rowCount) database.exec("rollback to rows");
    database.exec("release rows");
    return written === rowCount;
  };

  /** Returns which rows were new. */
  const insert = (table: string, batch: ColumnBatch): number[] => {
    const { rowCount } = batch;
    const columns = batchColumns(batch);
    const isLong = rowCount >= CHUNK_ROWS && columns.some(({ isConstant }) => !isConstant);
    return isLong && insertNew(table, columns, rowCount)
      ? Array.from({ length: rowCount }, (_, row) => row)
      : insertRows(table, columns, 0, rowCount);
  };

  const addUse = (use: DailyUse): void => {
    prepared("daily usage", () => upsertUses({ db }, [use])).run(...USE_COLUMNS.map((name) => use[name]));
  };

  return {
    insertColumns: async (table, batch, counted = []) => {
      const rows = insert(table, batch);
      return { rows: rows.length, bytes: bytesIn(batch, counted, rows) };
    },
    insertCounted: async (inserts) => {
      let [runs, bytes] = [0, 0];
      for (const { table, batch, counted = [], haveEnded } of inserts) {
        const rows = insert(table, batch);
        if (table === "runs") runs += rows.length;
        bytes += bytesIn(batch, counted, rows);
        if (haveEnded) for (const use of rollUp(batch, rows)) addUse(use);
      }
      if (runs === 0 && bytes === 0) return;
      prepared(
        "usage",
        () => sql`update usage set runs = runs + ?, bytes = bytes + ? where slot = ${USAGE_SLOT}`,
      ).run(runs, bytes);
    },
    updateColumns: async (table, batch, change) => {
      const isMatched = ({ name }: BatchColumn) => change.match.includes(name);
      const columns = batchColumns(batch).toSorted((a, b) => Number(isMatched(a)) - Number(isMatched(b)));
      const names = columns.map(({ name }) => name);
      const key = `update ${table} ${names.join()} ${JSON.stringify(change)}`;
      const statement = prepared(key, () => updateSql(table, names, change));
      return runForEach(statement, columns, 0, batch.rowCount);
    },
  };
}

/** Runs a statement with each of the rows; returns those by which it changed the table. */
function runForEach(statement: StatementSync, columns: readonly BatchColumn[], from: number, to: number) {
  const values: SQLInputValue[] = [];
  const changed: number[] = [];
  for (let row = from; row < to; row++) {
    for (let i = 0; i < columns.length; i++) values[i] = columns[i]!.valueAt(row);
    if (statement.run(...values).changes === 1) changed.push(row);
  }
  return changed;
}

/** Inserts rows of which only some columns vary: those of the others come once, and first. */
function insertSql(table: string, names: readonly string[], varying: readonly string[], rowCount: number) {
  const marks = (count: number) => Array.from({ length: count }, () => sql.raw("?"));
  const constant = marks(names.length - varying.length);
  const values = [...constant, ...varying.map((_, i) => sql.raw(`column${i + 1}`))];
  const row = sql`(${sql.join(marks(varying.length))})`;
  return sql`
    insert into ${sql.table(table)} (${sql.join(names.map((name) => sql.ref(name)))})
    select ${sql.join(values)} from (values ${sql.join(Array.from({ length: rowCount }, () => row))})
    where true on conflict do nothing
  `;
}

/** Changes a row; the values to match come after those to set. */
function updateSql(table: string, names: readonly string[], { match, where = {}, set = {} }: ColumnChange) {
  const equal = (isMatch: boolean) =>
    names.filter((name) => match.includes(name) === isMatch).map((name) => sql`${sql.ref(name)} = ?`);
  const constants = (values: Readonly<Record<string, number | null>>) =>
    Object.entries(values).map(([name, value]) => sql`${sql.ref(name)} = ${sql.lit(value)}`);
  const changes = sql.join([...equal(false), ...constants(set)]);
  const conditions = sql.join([...equal(true), ...constants(where)], sql` and `);
  return sql`update ${sql.table(table)} set ${changes} where ${conditions}`;
}
