import type { Kysely, RawBuilder, Selectable, sql } from "kysely";
import type { MemberRole, Role } from "../model/roles.ts";
import type { INITIAL_TABLES } from "./schema/0001-initial.ts";
import type { BATCH_COLUMNS } from "./schema/0002-batches.ts";
import type { QUEUE_COLUMNS, QUEUE_TABLES } from "./schema/0003-queues.ts";
import type { CHECKPOINT_TABLES } from "./schema/0004-checkpoints.ts";
import type { SCHEDULE_TABLES } from "./schema/0005-schedules.ts";
import type { QUEUE_LIMIT_COLUMNS, QUEUE_LIMIT_TABLES } from "./schema/0006-queue-limits.ts";
import type { WEIGHT_COLUMNS } from "./schema/0007-account-weight.ts";
import type { QUEUE_STATE_COLUMNS } from "./schema/0008-queue-state.ts";
import type { BULK_TABLES } from "./schema/0009-bulk-jobs.ts";
import type { LINE_BATCH_TABLES } from "./schema/0010-batches.ts";
import type { TRACE_COLUMNS } from "./schema/0011-traces.ts";
import type { OPENAI_BATCH_TABLES } from "./schema/0012-openai-batches.ts";
import type { USAGE_COLUMNS, USAGE_TABLES } from "./schema/0013-usage.ts";
import type { TypesOf } from "./schema/tables.ts";
import { buffersOf, type ColumnBatch } from "./column-batch.ts";
import type { DatabaseFile } from "./upkeep/storage-fault.ts";

/** The tables as queries see them: as declared, with narrower types. Kysely's CamelCasePlugin converts the names. */
export type Schema = TypesOf<typeof INITIAL_TABLES> &
  TypesOf<typeof BATCH_COLUMNS> &
  TypesOf<typeof QUEUE_COLUMNS> &
  TypesOf<typeof QUEUE_TABLES> &
  TypesOf<typeof CHECKPOINT_TABLES> &
  TypesOf<typeof SCHEDULE_TABLES> &
  TypesOf<typeof QUEUE_LIMIT_COLUMNS> &
  TypesOf<typeof QUEUE_LIMIT_TABLES> &
  TypesOf<typeof WEIGHT_COLUMNS> &
  TypesOf<typeof QUEUE_STATE_COLUMNS> &
  TypesOf<typeof BULK_TABLES> &
  TypesOf<typeof LINE_BATCH_TABLES> &
  TypesOf<typeof TRACE_COLUMNS> &
  TypesOf<typeof OPENAI_BATCH_TABLES> &
  TypesOf<typeof USAGE_COLUMNS> &
  TypesOf<typeof USAGE_TABLES> & {
    serviceAccounts: { role: Role };
    invitations: { role: MemberRole };
    memberships: { role: MemberRole };
    sessions: { kind: "browser" | "device" };
  };

/** A row of a table. */
export type Row<Table extends keyof Schema> = Readonly<Selectable<Schema[Table]>>;

/** The database as operations use it: the same for SQLite and Postgres. */
export type Session = {
  readonly db: Kysely<Schema>;
  /** Kysely's own, handed in: an operation that imported it would load Kysely on the main thread too. */
  readonly sql: typeof sql;
  /** The database's own clock, in epoch milliseconds: leases are measured by it alone. */
  readonly databaseNow: RawBuilder<number>;
  /** Called when a change is noted for other services; null for a single service. */
  readonly tellOthers: (() => void) | null;
  /** The row of `usage` that this connection adds to. */
  readonly usageSlot: RawBuilder<number>;
  /** Absent if a server manages the database's files. */
  readonly files?: FileUpkeep;
  /** The end of a select that locks the rows of the table and skips rows that another transaction has locked. */
  skipLocked(table: "runs" | "deliveries" | "seats" | "schedules"): RawBuilder<unknown>;
  /** The end of a select after which no other transaction changes the rows until this one has ended. */
  readonly shareLock: RawBuilder<unknown>;
  /** Inserts rows, and keeps existing ones. Returns how many were inserted, and their bytes in the counted columns. */
  insertColumns(table: keyof Schema, batch: ColumnBatch, counted?: readonly string[]): Promise<Written>;
  /**
   * Inserts rows into several tables, as `insertColumns` does, and adds the new runs and bytes to `usage`. Runs that have
   * ended are also added to the sums of their day.
   */
  insertCounted(inserts: readonly ColumnInsert[]): Promise<void>;
  /** Updates many rows of one table. Returns the indexes in the batch of the rows that were updated. */
  updateColumns(table: keyof Schema, batch: ColumnBatch, change: ColumnChange): Promise<number[]>;
};

/** The upkeep of SQLite's files. */
export type FileUpkeep = {
  /** Unused bytes in the database's file. */
  readonly freeBytes: () => number;
  /** Returns up to that many of them to the file system. */
  readonly giveBack: (maxBytes: number) => void;
  /** The first fault of a table, or of the whole file. */
  readonly findDamage: (table: string | null) => string | null;
  /** The size of the write-ahead log. */
  readonly logBytes: () => number;
  /** Checkpoints the log into the database and truncates it, except what readers still need. Does not wait for them. */
  readonly foldLog: () => void;
};

export type Written = { readonly rows: number; readonly bytes: number };

/** Rows of one table, and the columns whose bytes count as stored. `haveEnded`: they are runs that have. */
export type ColumnInsert = Readonly<{
  table: keyof Schema;
  batch: ColumnBatch;
  counted?: readonly string[];
  haveEnded?: true;
}>;

/** How a database writes batches. */
export type ColumnWriter = Pick<Session, "insertColumns" | "insertCounted" | "updateColumns">;

/** Which rows a batch updates, and which other columns it sets. */
export type ColumnChange = {
  /** The columns of the batch that identify a row; the others are set. */
  readonly match: readonly string[];
  /** Other values that a row must have. */
  readonly where?: Readonly<Record<string, number>>;
  readonly set?: Readonly<Record<string, number | null>>;
};

/**
 * A named operation, which runs next to the database. A write is one transaction; a read is one statement, and so is an
 * insert if the database can do it in one. Upkeep runs in the writer's thread, between transactions. `pack` runs in the
 * caller's thread.
 */
export type Operation<Input, Result, Packed> = {
  readonly mode: "read" | "write" | "insert" | "upkeep";
  /** Whether it may read many rows: then it has its own connection and time limit. */
  readonly isHeavy: (packed: Packed) => boolean;
  readonly pack: (input: Input) => Packed;
  /** The buffers of the packed input that are transferred to the database's thread. */
  readonly movedWith: (packed: Packed) => ArrayBuffer[];
  readonly run: (session: Session, packed: Packed) => Promise<Result>;
};

export type AnyOperation = Operation<never, unknown, never>;

/** Reads and writes fail separately: commits may hang while everything can still be read. */
export type Lane = "read" | "write";

/** Runs operations by name. */
export type Backend = {
  run(name: string, packed: unknown): Promise<unknown>;
  /** Runs a small operation. Resolves with any answer; rejects after a time limit. */
  probe(lane: Lane): Promise<unknown>;
  /** Drops all waiting calls. */
  abandon(lane: Lane): void;
  /** The database's file; absent if a server manages it. */
  readonly file?: DatabaseFile;
  /** Calls back when another service has changed something; absent for a single service. */
  readonly listen?: (onHint: () => void) => () => void;
  close(): Promise<void>;
};

const never = (): boolean => false;

/** The time limit of a heavy read. */
export const HEAVY_READ_MS = 10_000;

type Run<Input, Result> = (session: Session, input: Input) => Promise<Result>;

/** Makes operations whose input is not packed. */
function unpacked(mode: Operation<never, unknown, never>["mode"]) {
  return <Input = void, Result = unknown>(run: Run<Input, Result>): Operation<Input, Result, Input> => ({
    mode,
    isHeavy: never,
    pack: (input) => input,
    movedWith: () => [],
    run,
  });
}

/** An operation that changes nothing and reads few rows. */
export const read = unpacked("read");

/** An operation that is durable once its promise resolves. */
export const write = unpacked("write");

/** A write of one statement, which is its own transaction: none stays open when the connection is lost. */
export const statement = unpacked("insert");

/** An operation that the writer runs outside of any transaction. */
export const upkeep = unpacked("upkeep");

/** A read that may read many rows, always or with some inputs: other reads never wait for it. */
export function heavyRead<Input = void, Result = unknown>(
  run: Run<Input, Result>,
  isHeavy: (input: Input) => boolean = () => true,
): Operation<Input, Result, Input> {
  return { ...read(run), isHeavy };
}

/** A write whose input is packed first, because sending it as objects would take the caller's thread too long. */
export function packedWrite<Input, Packed, Result>(
  pack: (input: Input) => Packed,
  run: Run<Packed, Result>,
): Operation<Input, Result, Packed> {
  return { mode: "write", isHeavy: never, pack, movedWith: buffersOf, run };
}

/** A packed write that is one `insertCounted`. */
export function packedInsert<Input, Packed>(
  pack: (input: Input) => Packed,
  insertsOf: (packed: Packed) => readonly ColumnInsert[],
): Operation<Input, void, Packed> {
  const run = async (session: Session, packed: Packed) => await session.insertCounted(insertsOf(packed));
  return { mode: "insert", isHeavy: never, pack, movedWith: buffersOf, run };
}
