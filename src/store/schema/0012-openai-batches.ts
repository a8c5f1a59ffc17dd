import { type Kysely, sql } from "kysely";
import { createTables, type Dialect, type Tables } from "./tables.ts";

/** What clients of OpenAI's Batch API have made: files of requests, and the batches made of them. */
export const OPENAI_BATCH_TABLES = {
  batchFiles: {
    number: "counter",
    id: "bytes",
    appNumber: "integer",
    accountId: "text?",
    callerUser: "text?",
    name: "text",
    purpose: "text",
    bytes: "bigint",
    /** Whether all of it has arrived. */
    isWhole: "smallint",
    createdAt: "bigint",
    expiresAt: "bigint",
    indexes: [
      "unique batch_files_by_id (app_number, id)",
      "batch_files_by_account (app_number, account_id)",
      "batch_files_by_expiry (expires_at)",
    ],
  },
  batchFileParts: {
    file: "integer", // Its number.
    part: "integer", // From 0.
    bytes: "bytes",
    constraint: "constraint batch_file_parts_by_part primary key (file, part)",
  },
  openaiBatches: {
    number: "counter",
    id: "bytes", // That of its batch of lines, if its file was valid.
    appNumber: "integer",
    accountId: "text?",
    callerUser: "text?",
    /** What was asked, and what is wrong with the file: JSON. */
    details: "text",
    /** Its idempotency key, while that counts, and what it was used for. */
    keyHash: "bytes?",
    fingerprint: "bytes?",
    createdAt: "bigint",
    expiresAt: "bigint",
    indexes: [
      "unique openai_batches_by_id (app_number, id)",
      "unique openai_batches_by_key (app_number, key_hash) where key_hash is not null",
      "openai_batches_by_expiry (expires_at)",
    ],
  },
} as const satisfies Tables;

export async function openaiBatches(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await createTables(db, dialect, OPENAI_BATCH_TABLES);
  // As for the indexes of runs: see the first migration.
  if (dialect.kind === "sqlite") {
    await sql`
      insert into sqlite_stat1 (tbl, idx, stat) values
        ('batch_files', 'batch_files_by_id', '1000 100 1'), ('batch_files', 'batch_files_by_account', '1000 100 20'),
        ('batch_files', 'batch_files_by_expiry', '1000 2'),
        ('batch_file_parts', 'sqlite_autoindex_batch_file_parts_1', '10000 100 1'),
        ('openai_batches', 'openai_batches_by_id', '1000 100 1'),
        ('openai_batches', 'openai_batches_by_key', '100 10 1'),
        ('openai_batches', 'openai_batches_by_expiry', '1000 2')
    `.execute(db);
    await sql`analyze sqlite_schema`.execute(db);
  }
}
