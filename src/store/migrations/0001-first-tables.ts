import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** Projects, apps and their versions, run records, service accounts with their tokens, signing keys, meta. */
export async function firstTables(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { schema } = db;
  const { time, span, bytes, small, counter, table, tableInKeyOrder } = types;

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
    .modifyEnd(table)
    .execute();
  await schema
    .createIndex("apps_by_name")
    .on("apps")
    .columns(["project_id", "name"])
    .unique()
    .where(sql.ref("deleted_at"), "is", null)
    .execute();

  await schema
    .createTable("versions")
    .addColumn("id", bytes, (c) => c.primaryKey().notNull())
    .addColumn("app_number", "integer", (c) => c.notNull().references("apps.number"))
    .addColumn("number", "integer", (c) => c.notNull())
    .addColumn("config", "text", (c) => c.notNull())
    .addColumn("bundle_dir", "text", (c) => c.notNull())
    .addColumn("functions", "text")
    .addColumn("created_at", time, (c) => c.notNull())
    .addUniqueConstraint("versions_by_number", ["app_number", "number"])
    .modifyEnd(table)
    .execute();

  // No foreign keys here: records are written behind in batches, and one odd row must not fail the rest.
  await schema
    .createTable("runs")
    .addColumn("app_number", "integer", (c) => c.notNull())
    .addColumn("id", bytes, (c) => c.notNull())
    .addColumn("version_id", bytes, (c) => c.notNull())
    .addColumn("function_name", "text", (c) => c.notNull())
    .addColumn("method", "text", (c) => c.notNull())
    .addColumn("is_async", small, (c) => c.notNull())
    .addColumn("state", small, (c) => c.notNull())
    .addColumn("status_code", small)
    .addColumn("attempt", "integer", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("started_at", time)
    .addColumn("completed_at", time)
    .addColumn("updated_at", time, (c) => c.notNull())
    .addColumn("replica_id", "text")
    .addColumn("replica_started_at", time)
    .addColumn("ip", "text")
    .addColumn("webhook_endpoint", "text")
    .addColumn("webhook_state", small, (c) => c.notNull())
    .addColumn("error_code", "text")
    .addColumn("error_message", "text")
    .addColumn("error_traceback", "text")
    .addColumn("queue_ms", span)
    .addColumn("run_ms", span)
    .addColumn("response_ms", span)
    .addPrimaryKeyConstraint("runs_by_id", ["app_number", "id"])
    .modifyEnd(tableInKeyOrder)
    .execute();
  // Partial, so that a sync run that succeeded, the common case, writes the table and nothing else.
  for (const [name, condition] of [
    ["runs_unfinished", sql<boolean>`state in (0, 1)`],
    ["runs_failed", sql<boolean>`state = 3`],
    ["runs_async", sql<boolean>`is_async = 1`],
  ] as const) {
    await schema.createIndex(name).on("runs").columns(["app_number", "id"]).where(condition).execute();
  }
  if (types.kind === "sqlite") await describeRuns(db);

  await schema
    .createTable("service_accounts")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("project_id", "text", (c) => c.references("projects.id"))
    .addColumn("name", "text", (c) => c.notNull())
    .addColumn("description", "text")
    .addColumn("role", "text", (c) => c.notNull().check(sql`role in ('run', 'deploy', 'admin')`))
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("expires_at", time, (c) => c.notNull())
    .addColumn("revoked_at", time)
    .addColumn("last_used_at", time)
    .modifyEnd(table)
    .execute();
  await schema
    .createIndex("service_accounts_by_project")
    .on("service_accounts")
    .columns(["project_id", "created_at"])
    .execute();

  await schema
    .createTable("tokens")
    .addColumn("jti_hash", bytes, (c) => c.primaryKey().notNull())
    .addColumn("account_id", "text", (c) => c.notNull().references("service_accounts.id"))
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("expires_at", time, (c) => c.notNull())
    .addColumn("revoked_at", time)
    .modifyEnd(table)
    .execute();
  await schema.createIndex("tokens_by_account").on("tokens").column("account_id").execute();

  await schema
    .createTable("signing_keys")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("sealed_private", bytes, (c) => c.notNull())
    .addColumn("public_jwk", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("retired_at", time)
    .modifyEnd(table)
    .execute();
}

/**
 * Without figures SQLite takes every index of a table to be as long as the table, and would search all runs of
 * an app for the few that failed. These say what a long-lived service holds: rows, rows of one app, of one id.
 */
async function describeRuns(db: Kysely<unknown>): Promise<void> {
  await sql`analyze`.execute(db);
  await sql`
    insert into sqlite_stat1 (tbl, idx, stat) values
      ('runs', 'runs', '10000000 100000 1'),
      ('runs', 'runs_async', '1000000 10000 1'),
      ('runs', 'runs_failed', '100000 1000 1'),
      ('runs', 'runs_unfinished', '1000 10 1')
  `.execute(db);
}
