import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** Service accounts with their tokens, and the keys that sign tokens. */
export async function addAccounts({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, bytes, table } = types;
  await schema
    .createTable("service_accounts")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("project_id", "text", (c) => c.notNull().references("projects.id"))
    .addColumn("name", "text", (c) => c.notNull())
    .addColumn("description", "text")
    .addColumn("role", "text", (c) => c.notNull())
    .addColumn("call_limits", "text")
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

/** People, invitations, memberships, sessions, and the codes by which a command line asks for a session. */
export async function addPeople({ schema }: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { time, bytes, small, table } = types;
  await schema
    .createTable("people")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("email", "text", (c) => c.notNull())
    .addColumn("proven_at", time)
    .addColumn("sign_in_key", bytes, (c) => c.notNull())
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await schema
    .createIndex("people_by_sign_in")
    .unique()
    .on("people")
    .columns(["email", "sign_in_key"])
    .execute();
  await schema
    .createIndex("people_proven")
    .unique()
    .on("people")
    .column("email")
    .where(sql<boolean>`proven_at is not null`)
    .execute();

  await schema
    .createTable("invitations")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("project_id", "text", (c) => c.notNull().references("projects.id"))
    .addColumn("role", "text", (c) => c.notNull().check(sql`role in ('owner', 'member')`))
    .addColumn("email", "text", (c) => c.notNull())
    .addColumn("secret_hash", bytes, (c) => c.notNull().unique())
    .addColumn("inviter_id", "text", (c) => c.notNull())
    .addColumn("is_mailed", small, (c) => c.notNull())
    .addColumn("mailed_at", time)
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("expires_at", time, (c) => c.notNull())
    .addColumn("used_at", time)
    .addColumn("used_by", "text", (c) => c.references("people.id"))
    .modifyEnd(table)
    .execute();
  await schema
    .createIndex("invitations_by_project")
    .on("invitations")
    .columns(["project_id", "created_at"])
    .execute();
  await schema.createIndex("invitations_by_expiry").on("invitations").column("expires_at").execute();

  await schema
    .createTable("memberships")
    .addColumn("person_id", "text", (c) => c.notNull().references("people.id"))
    .addColumn("project_id", "text", (c) => c.notNull().references("projects.id"))
    .addColumn("role", "text", (c) => c.notNull().check(sql`role in ('owner', 'member')`))
    .addColumn("created_at", time, (c) => c.notNull())
    .addPrimaryKeyConstraint("memberships_by_person", ["person_id", "project_id"])
    .modifyEnd(table)
    .execute();
  await schema.createIndex("memberships_by_project").on("memberships").column("project_id").execute();

  await schema
    .createTable("sessions")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("person_id", "text", (c) => c.notNull().references("people.id"))
    .addColumn("kind", "text", (c) => c.notNull().check(sql`kind in ('browser', 'device')`))
    .addColumn("family_hash", bytes, (c) => c.notNull().unique())
    .addColumn("secret_hash", bytes, (c) => c.notNull())
    .addColumn("previous_hash", bytes)
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("refreshed_at", time, (c) => c.notNull())
    .addColumn("expires_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await schema.createIndex("sessions_by_person").on("sessions").column("person_id").execute();
  await schema.createIndex("sessions_by_expiry").on("sessions").column("expires_at").execute();

  await schema
    .createTable("device_codes")
    .addColumn("device_hash", bytes, (c) => c.primaryKey().notNull())
    .addColumn("user_hash", bytes, (c) => c.notNull().unique())
    .addColumn("person_id", "text", (c) => c.references("people.id"))
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("expires_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await schema.createIndex("device_codes_by_expiry").on("device_codes").column("expires_at").execute();
}
