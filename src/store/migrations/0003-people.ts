import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** People, their place in projects, their sessions, and the codes by which a command line asks for one. */
export async function people(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { schema } = db;
  const { time, bytes, table } = types;

  await schema
    .createTable("people")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("email", "text", (c) => c.notNull().unique())
    .addColumn("sealed_password", bytes)
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();

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
