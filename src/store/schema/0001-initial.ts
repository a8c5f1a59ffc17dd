import { sql } from "kysely";
import type { Kysely } from "kysely";
import { addAccounts, addPeople } from "./0001-initial-people.ts";
import type { ColumnTypes } from "./column-types.ts";

/** The tables of the first release. */
export async function initial(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  await addProjects(db, types);
  await addBuilds(db, types);
  await addRuns(db, types);
  await addPayloads(db, types);
  await addDeliveries(db, types);
  await addLogs(db, types);
  await addAccounts(db, types);
  await addPeople(db, types);
  await addNodes(db, types);
  await addChanges(db, types);
  await addUsage(db, types);
  if (types.kind === "sqlite") await addStatistics(db);
}

/** Facts about the installation, projects, apps and their versions, secrets, the audit log. */
async function addProjects({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, bytes, counter, table } = types;
  await schema
    .createTable("meta")
    .addColumn("key", "text", (c) => c.primaryKey().notNull())
    .addColumn("value", "text", (c) => c.notNull())
    .modifyEnd(table)
    .execute();

  await schema
    .createTable("projects")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("name", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();

  await schema
    .createTable("apps")
    .addColumn("number", counter)
    .addColumn("project_id", "text", (c) => c.notNull().references("projects.id"))
    .addColumn("name", "text", (c) => c.notNull())
    .addColumn("current_version_id", bytes)
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .addColumn("deleted_at", time)
    .addColumn("owner", "text")
    .addColumn("fence", time, (c) => c.notNull().defaultTo(sql`0`))
    .addColumn("host_label", "text")
    .modifyEnd(table)
    .execute();
  const isLiving = sql<boolean>`deleted_at is null`;
  await schema
    .createIndex("apps_by_name")
    .on("apps")
    .columns(["project_id", "name"])
    .unique()
    .where(isLiving)
    .execute();
  await schema.createIndex("apps_by_owner").on("apps").columns(["owner", "number"]).where(isLiving).execute();
  await schema
    .createIndex("apps_by_host_label")
    .on("apps")
    .column("host_label")
    .where(sql<boolean>`host_label is not null`)
    .execute();

  await schema
    .createTable("versions")
    .addColumn("id", bytes, (c) => c.primaryKey().notNull())
    .addColumn("app_number", "integer", (c) => c.notNull().references("apps.number"))
    .addColumn("number", "integer", (c) => c.notNull())
    .addColumn("config", "text", (c) => c.notNull())
    .addColumn("overrides", "text")
    .addColumn("functions", "text")
    .addColumn("bundle_dir", "text", (c) => c.notNull())
    .addColumn("bundle_hash", "text")
    .addColumn("bundle_blob", "text")
    .addColumn("bundle_bytes", time)
    .addColumn("environment", "text")
    .addColumn("environment_blob", "text")
    .addColumn("environment_bytes", time)
    .addColumn("environment_tag", "text")
    .addColumn("created_at", time, (c) => c.notNull())
    .addUniqueConstraint("versions_by_number", ["app_number", "number"])
    .modifyEnd(table)
    .execute();
  // To find out whether any version still names a blob.
  for (const name of ["bundle_blob", "environment_blob"])
    await schema.createIndex(`versions_by_${name}`).on("versions").column(name).execute();

  // One row for a project, with app 0, and one for each app: a map is sealed and replaced as a whole.
  await schema
    .createTable("secrets")
    .addColumn("project_id", "text", (c) => c.notNull().references("projects.id"))
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("sealed_map", bytes, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .addPrimaryKeyConstraint("secrets_by_place", ["project_id", "app_number"])
    .modifyEnd(table)
    .execute();

  await schema
    .createTable("audit_entries")
    .addColumn("number", time, (c) => c.primaryKey().notNull())
    .addColumn("project_id", "text")
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("entry", "text", (c) => c.notNull())
    .addColumn("hash", bytes, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await schema
    .createIndex("audit_entries_by_project")
    .on("audit_entries")
    .columns(["project_id", "number"])
    .execute();
}

async function addBuilds({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, bytes, small, table, tableInKeyOrder } = types;
  await schema
    .createTable("builds")
    .addColumn("id", bytes, (c) => c.primaryKey().notNull())
    .addColumn("app_number", "integer", (c) => c.notNull().references("apps.number"))
    .addColumn("status", small, (c) => c.notNull())
    .addColumn("message", "text")
    .addColumn("payload", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await schema.createIndex("builds_by_app").on("builds").columns(["app_number", "id"]).execute();
  await schema
    .createIndex("builds_unfinished")
    .on("builds")
    .column("id")
    .where(sql<boolean>`status < 3`)
    .execute();

  await schema
    .createTable("build_lines")
    .addColumn("build_id", bytes, (c) => c.notNull())
    .addColumn("number", "integer", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("stream", small, (c) => c.notNull())
    .addColumn("stage", small, (c) => c.notNull())
    .addColumn("text", "text", (c) => c.notNull())
    .addPrimaryKeyConstraint("build_lines_by_number", ["build_id", "number"])
    .modifyEnd(tableInKeyOrder)
    .execute();
}

/** Runs, and the idempotency keys that name them. */
async function addRuns({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, span, bytes, small, tableInKeyOrder } = types;
  // No foreign keys here: records are written behind in batches, and one odd row must not fail the rest.
  await schema
    .createTable("runs")
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addColumn("version_id", bytes, (c) => c.notNull())
    .addColumn("function_name", "text", (c) => c.notNull())
    .addColumn("method", "text", (c) => c.notNull())
    .addColumn("is_async", small, (c) => c.notNull())
    .addColumn("is_web_socket", small, (c) => c.notNull().defaultTo(sql`0`))
    .addColumn("state", small, (c) => c.notNull())
    .addColumn("status_code", small)
    .addColumn("attempt", "integer", (c) => c.notNull())
    .addColumn("interruptions", "integer", (c) => c.notNull().defaultTo(0))
    .addColumn("owner", "text")
    .addColumn("fence", "integer", (c) => c.notNull().defaultTo(0))
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("started_at", time)
    .addColumn("completed_at", time)
    .addColumn("updated_at", time, (c) => c.notNull())
    .addColumn("replica_id", "text")
    .addColumn("replica_started_at", time)
    .addColumn("ip", "text")
    .addColumn("account_id", "text")
    .addColumn("caller_user", "text")
    .addColumn("webhook_endpoint", "text")
    .addColumn("webhook_state", small, (c) => c.notNull())
    .addColumn("error_code", "text")
    .addColumn("error_message", "text")
    .addColumn("error_traceback", "text")
    .addColumn("queue_ms", span)
    .addColumn("run_ms", span)
    .addColumn("response_ms", span)
    .addColumn("request_bytes", time)
    .addColumn("response_bytes", time)
    .addPrimaryKeyConstraint("runs_by_id", ["app_number", "id"])
    .modifyEnd(tableInKeyOrder)
    .execute();
  // Partial, so that a sync run that succeeded, the common case, writes the table and nothing else.
  for (const [name, condition] of [
    ["runs_unfinished", sql<boolean>`state in (0, 1)`],
    ["runs_running", sql<boolean>`state = 1`],
    ["runs_failed", sql<boolean>`state = 3`],
    ["runs_cancelled", sql<boolean>`state = 4`],
    ["runs_async", sql<boolean>`is_async = 1`],
    ["runs_async_failed", sql<boolean>`is_async = 1 and state = 3`],
    ["runs_async_cancelled", sql<boolean>`is_async = 1 and state = 4`],
  ] as const)
    await schema.createIndex(name).on("runs").columns(["app_number", "id"]).where(condition).execute();

  await schema
    .createTable("idempotency_keys")
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("key_hash", bytes, (c) => c.notNull())
    .addColumn("run_id", bytes, (c) => c.notNull())
    .addColumn("fingerprint", bytes, (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addPrimaryKeyConstraint("idempotency_keys_by_hash", ["app_number", "key_hash"])
    .modifyEnd(tableInKeyOrder)
    .execute();
  await schema.createIndex("idempotency_keys_by_age").on("idempotency_keys").column("created_at").execute();
}

/**
 * What is stored of a run in addition to its record. Not in key order: SQLite would cut every row of more than a
 * kilobyte into pages of its own. A row of 6 kB took 13 to 22 µs and 8.8 kB that way, against 4 µs and 6.2 kB.
 */
async function addPayloads({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, bytes, small, table, tableInKeyOrder } = types;
  await schema
    .createTable("payloads")
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addColumn("content_type", "text")
    .addColumn("is_bare", small, (c) => c.notNull())
    .addColumn("sealed_secret", bytes)
    .addColumn("input_blob", "text")
    .addColumn("input_bytes", time)
    .addColumn("result_blob", "text")
    .addColumn("result_bytes", time)
    // Last: SQLite reads a row up to the columns that are asked for.
    .addColumn("input", bytes)
    .addColumn("result", bytes)
    .addPrimaryKeyConstraint("payloads_by_id", ["app_number", "id"])
    .modifyEnd(table)
    .execute();

  // A table of its own: an index over all payloads would cost every run, and few name a blob.
  await schema
    .createTable("run_blobs")
    .addColumn("hash", "text", (c) => c.notNull())
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addPrimaryKeyConstraint("run_blobs_by_hash", ["hash", "app_number", "id"])
    .modifyEnd(tableInKeyOrder)
    .execute();

  await schema
    .createTable("transcripts")
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addColumn("first_event", time, (c) => c.notNull())
    .addColumn("event_count", time, (c) => c.notNull())
    .addColumn("bytes", bytes, (c) => c.notNull())
    .addPrimaryKeyConstraint("transcripts_by_event", ["app_number", "id", "first_event"])
    .modifyEnd(table)
    .execute();
}

/** Webhooks: what is sent, every attempt, and the secrets that sign them. */
async function addDeliveries({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, span, bytes, small, table, tableInKeyOrder } = types;
  await schema
    .createTable("deliveries")
    .addColumn("id", bytes, (c) => c.primaryKey().notNull())
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("url", "text", (c) => c.notNull())
    .addColumn("content_type", "text")
    .addColumn("run_status", small, (c) => c.notNull())
    .addColumn("state", small, (c) => c.notNull())
    .addColumn("attempts", "integer", (c) => c.notNull())
    .addColumn("next_at", time)
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .addColumn("owner", "text")
    .addColumn("sealed_secret", bytes)
    .addColumn("body_blob", "text")
    .addColumn("body_bytes", time)
    .addColumn("body", bytes)
    .modifyEnd(table)
    .execute();
  for (const [name, columns, condition] of [
    ["deliveries_due", ["next_at"], sql<boolean>`state = 0`],
    ["deliveries_by_age", ["created_at"], sql<boolean>`state = 0`],
    ["deliveries_held", ["owner"], sql<boolean>`state = 0 and owner is not null`],
    ["deliveries_ended", ["updated_at"], sql<boolean>`state <> 0`],
    ["deliveries_kept", ["app_number", "id"], sql<boolean>`state <> 0 and body is not null`],
  ] as const)
    await schema
      .createIndex(name)
      .on("deliveries")
      .columns([...columns])
      .where(condition)
      .execute();
  await schema.createIndex("deliveries_by_app").on("deliveries").columns(["app_number", "id"]).execute();

  await schema
    .createTable("delivery_attempts")
    .addColumn("delivery_id", bytes, (c) => c.notNull())
    .addColumn("number", "integer", (c) => c.notNull())
    .addColumn("started_at", time, (c) => c.notNull())
    .addColumn("duration_ms", span, (c) => c.notNull())
    .addColumn("request_headers", "text", (c) => c.notNull())
    .addColumn("status", small)
    .addColumn("error", "text")
    .addColumn("next_at", time)
    .addPrimaryKeyConstraint("delivery_attempts_by_number", ["delivery_id", "number"])
    .modifyEnd(tableInKeyOrder)
    .execute();

  await schema
    .createTable("webhook_secrets")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("project_id", "text", (c) => c.notNull().references("projects.id"))
    .addColumn("sealed_secret", bytes, (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("retired_at", time)
    .modifyEnd(table)
    .execute();
  await schema
    .createIndex("webhook_secrets_by_project")
    .on("webhook_secrets")
    .columns(["project_id", "created_at"])
    .execute();
}

/** Lines that apps printed, and how much those of each app take up. */
async function addLogs({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, bytes, small, table, tableInKeyOrder } = types;
  await schema
    .createTable("log_lines")
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addColumn("run_id", bytes)
    .addColumn("replica_id", "text", (c) => c.notNull())
    .addColumn("line_number", time, (c) => c.notNull())
    .addColumn("stream", small, (c) => c.notNull())
    .addColumn("text", "text", (c) => c.notNull())
    .addPrimaryKeyConstraint("log_lines_by_id", ["app_number", "id"])
    .modifyEnd(tableInKeyOrder)
    .execute();
  await schema
    .createIndex("log_lines_by_run")
    .on("log_lines")
    .columns(["app_number", "run_id", "id"])
    .where(sql<boolean>`run_id is not null`)
    .execute();
  // Over all apps: the oldest lines go first.
  await schema.createIndex("log_lines_by_age").on("log_lines").column("id").execute();

  await schema
    .createTable("log_usage")
    .addColumn("app_number", "integer", (c) => c.primaryKey().notNull())
    .addColumn("bytes", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
}

/** Services that hold apps, runs or deliveries, and the seats on other machines that belong to them. */
async function addNodes({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, bytes, table, tableInKeyOrder } = types;
  await schema
    .createTable("owners")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("lease_until", time, (c) => c.notNull())
    .addColumn("url", "text")
    .addColumn("details", "text")
    .addColumn("leaving_at", time)
    .modifyEnd(table)
    .execute();

  await schema
    .createTable("seats")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("version_id", bytes, (c) => c.notNull())
    .addColumn("place_name", "text", (c) => c.notNull())
    .addColumn("secret_hash", bytes, (c) => c.notNull())
    .addColumn("fence", time, (c) => c.notNull())
    .addColumn("owner", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("workload", bytes)
    .addColumn("lost_at", time)
    .modifyEnd(tableInKeyOrder)
    .execute();
  await schema.createIndex("seats_by_owner").on("seats").column("owner").execute();
}

/**
 * What services that share a database tell each other: which thing was changed, by which transaction. A reader that
 * remembers a snapshot finds by it exactly what was committed since, in whatever order transactions began and ended.
 */
async function addChanges({ schema }: Kysely<unknown>, { kind, time, table }: ColumnTypes): Promise<void> {
  const isShared = kind === "postgres";
  await schema
    .createTable("changes")
    // Never given twice, however many there will be.
    .addColumn(
      "number",
      isShared
        ? sql`bigint generated always as identity primary key`
        : sql`integer primary key autoincrement`,
    )
    .addColumn("topic", "text", (c) => c.notNull())
    .addColumn("subject", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("txid", isShared ? sql`xid8` : "integer", (c) =>
      c.notNull().defaultTo(isShared ? sql`pg_current_xact_id()` : sql`0`),
    )
    .modifyEnd(table)
    .execute();
  await schema.createIndex("changes_by_txid").on("changes").column("txid").execute();
}

/** How much is stored, as the sum of 16 rows: with one row alone, each transaction would wait for the one before. */
async function addUsage(db: Kysely<unknown>, { time, table }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("usage")
    .addColumn("slot", "integer", (c) => c.primaryKey().notNull())
    .addColumn("runs", time, (c) => c.notNull())
    .addColumn("bytes", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  for (let slot = 0; slot < 16; slot++) await sql`insert into usage values (${slot}, 0, 0)`.execute(db);
}

/**
 * Without statistics SQLite takes every index of a table to be as long as the table, and would search all runs of an app
 * for the few that failed. These are those of a long-lived service: rows, rows of one app, rows of one id.
 */
async function addStatistics(db: Kysely<unknown>): Promise<void> {
  // Makes the table of statistics, with rows that say that everything is empty.
  await sql`analyze`.execute(db);
  await sql`delete from sqlite_stat1`.execute(db);
  await sql`
    insert into sqlite_stat1 (tbl, idx, stat) values
      ('apps', 'apps_by_host_label', '1000 1'),
      ('builds', 'builds_by_app', '10000 100 1'),
      ('builds', 'builds_unfinished', '10 1'),
      ('runs', 'runs', '10000000 100000 1'),
      ('runs', 'runs_async', '1000000 10000 1'),
      ('runs', 'runs_async_cancelled', '1000 10 1'),
      ('runs', 'runs_async_failed', '10000 100 1'),
      ('runs', 'runs_cancelled', '10000 100 1'),
      ('runs', 'runs_failed', '100000 1000 1'),
      ('runs', 'runs_running', '100 10 1'),
      ('runs', 'runs_unfinished', '1000 10 1'),
      ('payloads', 'sqlite_autoindex_payloads_1', '1000000 10000 1'),
      ('transcripts', 'sqlite_autoindex_transcripts_1', '1000000 10000 10 1'),
      ('deliveries', 'sqlite_autoindex_deliveries_1', '1000000 1'),
      ('deliveries', 'deliveries_by_age', '1000 2'),
      ('deliveries', 'deliveries_by_app', '1000000 10000 1'),
      ('deliveries', 'deliveries_due', '1000 2'),
      ('deliveries', 'deliveries_ended', '1000000 2'),
      ('deliveries', 'deliveries_held', '100 100'),
      ('deliveries', 'deliveries_kept', '100000 1000 1'),
      ('log_lines', 'log_lines', '10000000 100000 1'),
      ('log_lines', 'log_lines_by_age', '10000000 1'),
      ('log_lines', 'log_lines_by_run', '10000000 100000 10 1')
  `.execute(db);
  // Read now: this connection goes on as the writer.
  await sql`analyze sqlite_schema`.execute(db);
}
