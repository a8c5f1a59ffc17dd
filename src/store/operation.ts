import type { Kysely, RawBuilder, sql } from "kysely";
import { buffersOf } from "./column-batch.ts";
import type { ColumnBatch } from "./column-batch.ts";
import type { Schema } from "./schema/schema.ts";
import type { DatabaseFile } from "./upkeep/storage-fault.ts";

/** What an operation works with: the same on both databases. */
export type Session = {
  readonly db: Kysely<Schema>;
  /** Kysely's own, handed in: an operation that imported it would load Kysely on the main thread too. */
  readonly sql: typeof sql;
  /** The database's own clock, in epoch milliseconds: leases are measured by it alone. */
  readonly databaseNow: RawBuilder<number>;
  /** Called when a change is noted that other services are to learn of; null where the service is alone. */
  readonly tellOthers: (() => void) | null;
  /** The row of `usage` that this connection adds to. */
  readonly usageSlot: RawBuilder<number>;
  /** Bytes inside the database's files that hold nothing; 0 where the server looks after that itself. */
  readonly freeBytes: () => number;
  /** Returns up to that many of those bytes to the disk. */
  readonly giveBack: (maxBytes: number) => void;
  /** The first fault of a table, or of the whole file; absent where the server looks after that itself. */
  readonly findDamage?: (table: string | null) => string | null;
  /** The log that writes go through first; absent where the server looks after that itself. */
  readonly log?: WriteLog;
  /** At the end of a select: locks the table's rows, and leaves out those that another transaction has locked. */
  skipLocked(table: "runs" | "deliveries" | "seats"): RawBuilder<unknown>;
  /** At the end of a select: nobody else changes those rows until the transaction has ended. */
  readonly shareLock: RawBuilder<unknown>;
  /**
   * Writes many rows of one table at once; a row whose key is already there is left as it is. Returns how many
   * were written, and how many bytes those hold in the counted columns.
   */
  insertColumns(table: keyof Schema, batch: ColumnBatch, counted?: readonly string[]): Promise<Written>;
  /** Writes rows of several tables at once, as `insertColumns` does, and adds to `usage` what is new of runs. */
  insertCounted(inserts: readonly ColumnInsert[]): Promise<void>;
  /** Changes many rows of one table at once. Returns the places in the batch of those that were changed. */
  updateColumns(table: keyof Schema, batch: ColumnBatch, change: ColumnChange): Promise<number[]>;
};

/** SQLite's log beside its database. */
export type WriteLog = {
  readonly bytes: () => number;
  /** Checkpoints it into the database and truncates it, as far as no reader still needs it. Waits for nobody. */
  readonly fold: () => void;
};

export type Written = { readonly rows: number; readonly bytes: number };

/** Rows of one table, and its columns whose bytes count as stored. */
export type ColumnInsert = {
  readonly table: keyof Schema;
  readonly batch: ColumnBatch;
  readonly counted?: readonly string[];
};

/** Which rows a batch changes, and how beside its own columns. */
export type ColumnChange = {
  /** Columns of the batch that a row has to equal; the others are set. */
  readonly match: readonly string[];
  /** What else a row has to equal. */
  readonly where?: Readonly<Record<string, number>>;
  readonly set?: Readonly<Record<string, number | null>>;
};

/**
 * One named thing the service asks of its storage, run whole where the database is. A write is one
 * transaction; a read is one statement, and so is an insert where the database can: it needs no transaction then.
 * Upkeep is done by who writes, between two transactions. `pack` runs on the caller's thread, before the arguments
 * travel.
 */
export type Operation<Input, Result, Packed> = {
  readonly mode: "read" | "write" | "insert" | "upkeep";
  /** Whether it may look at many rows: such a read has a connection and a time of its own. */
  readonly isHeavy: (packed: Packed) => boolean;
  readonly pack: (input: Input) => Packed;
  /** What of the packed input moves to the database's thread; nobody else may use it again. */
  readonly movedWith: (packed: Packed) => ArrayBuffer[];
  readonly run: (session: Session, packed: Packed) => Promise<Result>;
};

/** An operation whose argument and result types are known only to its caller. */
export type AnyOperation = Operation<never, unknown, never>;

/** Reading and writing fall silent each on its own: a commit may hang while all that is stored can be read. */
export type Lane = "read" | "write";

/** Runs operations by name. */
export type Backend = {
  run(name: string, packed: unknown): Promise<unknown>;
  /** Asks for something small. Resolves at an answer of any kind; rejects when it has waited long enough. */
  probe(lane: Lane): Promise<unknown>;
  /** Drops everything that is waiting there. */
  abandon(lane: Lane): void;
  /** The database's own file; absent where a server looks after it. */
  readonly file?: DatabaseFile;
  /** Calls back when another service has changed something; absent where the service is alone. */
  readonly listen?: (onHint: () => void) => () => void;
  close(): Promise<void>;
};

const never = (): boolean => false;
const always = (): boolean => true;

/** A heavy read is given up after this long. */
export const HEAVY_READ_MS = 10_000;

/** An operation that changes nothing and looks at few rows. */
export function read<Input = void, Result = unknown>(
  run: (session: Session, input: Input) => Promise<Result>,
): Operation<Input, Result, Input> {
  return { mode: "read", isHeavy: never, pack: (input) => input, movedWith: () => [], run };
}

/** A read that may look at many rows, always or of such input: quick ones never wait for it. */
export function heavyRead<Input = void, Result = unknown>(
  run: (session: Session, input: Input) => Promise<Result>,
  isHeavy: (input: Input) => boolean = always,
): Operation<Input, Result, Input> {
  return { mode: "read", isHeavy, pack: (input) => input, movedWith: () => [], run };
}

/** An operation that is durable once its promise resolves. */
export function write<Input = void, Result = unknown>(
  run: (session: Session, input: Input) => Promise<Result>,
): Operation<Input, Result, Input> {
  return { mode: "write", isHeavy: never, pack: (input) => input, movedWith: () => [], run };
}

/** A write whose input is packed first, where sending it as it is would cost the caller's thread too much. */
export function packedWrite<Input, Packed, Result>(
  pack: (input: Input) => Packed,
  run: (session: Session, packed: Packed) => Promise<Result>,
): Operation<Input, Result, Packed> {
  return { mode: "write", isHeavy: never, pack, movedWith: buffersOf, run };
}

/** A write of one statement: where each is a transaction of its own, none stays open when the connection is lost. */
export function statement<Input = void>(
  run: (session: Session, input: Input) => Promise<void>,
): Operation<Input, void, Input> {
  return { mode: "insert", isHeavy: never, pack: (input) => input, movedWith: () => [], run };
}

/** What the writer does outside of any transaction. */
export function upkeep<Input = void, Result = unknown>(
  run: (session: Session, input: Input) => Promise<Result>,
): Operation<Input, Result, Input> {
  return { mode: "upkeep", isHeavy: never, pack: (input) => input, movedWith: () => [], run };
}

/** A packed write that does nothing but one `insertCounted`. */
export function packedInsert<Input, Packed>(
  pack: (input: Input) => Packed,
  insertsOf: (packed: Packed) => readonly ColumnInsert[],
): Operation<Input, void, Packed> {
  const run = async (session: Session, packed: Packed) => await session.insertCounted(insertsOf(packed));
  return { mode: "insert", isHeavy: never, pack, movedWith: buffersOf, run };
}
