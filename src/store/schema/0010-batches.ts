import { type Kysely, sql } from "kysely";
import { createTables, type Dialect, type Tables } from "./tables.ts";

/** Batches of lines: what was uploaded and has not begun, and for each line that has, its run and how it ended. */
export const LINE_BATCH_TABLES = {
  lineBatches: {
    number: "counter",
    id: "bytes",
    appNumber: "integer",
    functionName: "text",
    ip: "text?",
    accountId: "text?",
    callerUser: "text?",
    keyHash: "bytes?",
    fingerprint: "bytes?",
    /** What the upload asks of the queue for all lines: `Wishes` as JSON. */
    wishes: "text?",
    webhookEndpoint: "text?",
    sealedSecret: "bytes?",
    retryOf: "bytes?",
    state: "smallint",
    /** How many connections have uploaded to it; only the last one may go on. */
    fence: "integer",
    /** Lines and bytes that are stored. */
    total: "bigint",
    totalBytes: "bigint",
    /** Lines from the first one on that have a row in `batch_lines`; of these, lines whose runs wait for the end of a delay. */
    fed: "bigint default 0",
    delayed: "bigint default 0",
    /** How many of the lines that were fed have ended. */
    ended: "bigint default 0",
    succeeded: "bigint default 0",
    failed: "bigint default 0",
    /** As of a `Rate`. */
    rate: "double default 0",
    rateAt: "bigint default 0",
    /** No run of it has an id below this. */
    floor: "bytes",
    /** Runs of the app below this have been looked at by what keeps the caps of storage; null: none above the floor. */
    sweptTo: "bytes?",
    createdAt: "bigint",
    updatedAt: "bigint",
    uploadedAt: "bigint?",
    completedAt: "bigint?",
    indexes: [
      "unique line_batches_by_id (app_number, id)",
      "unique line_batches_by_key (app_number, key_hash) where key_hash is not null",
      "line_batches_open (app_number, account_id) where completed_at is null",
      "line_batches_ended (completed_at) where completed_at is not null",
    ],
  },
  /** Lines that wait for their turn, some in each row: without their ends, joined by newlines. */
  batchBlocks: {
    batch: "integer", // Its number.
    first: "bigint", // The index of its first line, from 0.
    lineCount: "integer",
    bytes: "bytes",
    digest: "bytes",
    constraint: "constraint batch_blocks_by_line primary key (batch, first)",
  },
  batchLines: {
    isInKeyOrder: true,
    batch: "integer",
    line: "bigint", // Its index, from 0.
    label: "text?", // The caller's own id for it, as JSON.
    runId: "bytes?", // Null for a line that could not be read, or was cancelled before it had a run.
    /** It has not ended before then; 0: it may have. Of a delayed line without a run, `WITHOUT_RUN` more. */
    dueAt: "bigint",
    /** Its place among the lines that have ended, from 1; null until it has. */
    place: "bigint?",
    state: "smallint?",
    errorCode: "text?", // Of a line without a run.
    errorMessage: "text?",
    constraint: "constraint batch_lines_by_index primary key (batch, line)",
    indexes: [
      "batch_lines_open (batch, due_at, line) where place is null",
      "batch_lines_ended (batch, place) where place is not null",
      "batch_lines_by_run (run_id) where run_id is not null",
    ],
  },
} as const satisfies Tables;

export async function lineBatches(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await createTables(db, dialect, LINE_BATCH_TABLES);
  // As for the indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('line_batches', 'line_batches_by_id', '1000 100 1'), ('line_batches', 'line_batches_by_key', '100 10 1'),
        ('line_batches', 'line_batches_open', '10 2 1'), ('line_batches', 'line_batches_ended', '1000 2'),
        ('batch_blocks', 'sqlite_autoindex_batch_blocks_1', '10000 100 1'),
        ('batch_lines', 'batch_lines', '1000000 10000 1'), ('batch_lines', 'batch_lines_open', '10000 2000 1000 1'),
        ('batch_lines', 'batch_lines_ended', '1000000 10000 1'), ('batch_lines', 'batch_lines_by_run', '1000000 1')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
