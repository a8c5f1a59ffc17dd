import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/**
 * Accounts of role `call` with what they are limited to, and who asked for each run: an account, and its end user.
 *
 * Widens `service_accounts.role`, which took only the roles of the first release. Services of the release before write
 * no others, and refuse the tokens of an account whose role they do not know.
 */
export async function callAccounts(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  if (types.kind === "sqlite") await remakeOnSqlite(db, types);
  else await sql`alter table service_accounts drop constraint service_accounts_role_check`.execute(db);
  await db.schema.alterTable("service_accounts").addColumn("call_limits", "text").execute();
  for (const name of ["account_id", "caller_user"])
    await db.schema.alterTable("runs").addColumn(name, "text").execute();
}

/**
 * SQLite has no statement that gives up a check, so the table is made again, and with it `tokens`, which refers to it.
 * No other service shares a SQLite database.
 */
async function remakeOnSqlite(db: Kysely<unknown>, { time, bytes, table }: ColumnTypes): Promise<void> {
  const { schema } = db;
  await schema
    .createTable("new_accounts")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("project_id", "text", (c) => c.references("projects.id"))
    .addColumn("name", "text", (c) => c.notNull())
    .addColumn("description", "text")
    .addColumn("role", "text", (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("expires_at", time, (c) => c.notNull())
    .addColumn("revoked_at", time)
    .addColumn("last_used_at", time)
    .modifyEnd(table)
    .execute();
  await schema
    .createTable("new_tokens")
    .addColumn("jti_hash", bytes, (c) => c.primaryKey().notNull())
    .addColumn("account_id", "text", (c) => c.notNull().references("new_accounts.id"))
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("expires_at", time, (c) => c.notNull())
    .addColumn("revoked_at", time)
    .modifyEnd(table)
    .execute();
  const account = sql`id, project_id, name, description, role, created_at, expires_at, revoked_at, last_used_at`;
  const token = sql`jti_hash, account_id, created_at, expires_at, revoked_at`;
  await sql`insert into new_accounts (${account}) select ${account} from service_accounts`.execute(db);
  await sql`insert into new_tokens (${token}) select ${token} from tokens`.execute(db);
  await schema.dropTable("tokens").execute();
  await schema.dropTable("service_accounts").execute();
  // What refers to a table refers to it by its new name afterwards.
  await schema.alterTable("new_accounts").renameTo("service_accounts").execute();
  await schema.alterTable("new_tokens").renameTo("tokens").execute();
  await schema
    .createIndex("service_accounts_by_project")
    .on("service_accounts")
    .columns(["project_id", "created_at"])
    .execute();
  await schema.createIndex("tokens_by_account").on("tokens").column("account_id").execute();
}
