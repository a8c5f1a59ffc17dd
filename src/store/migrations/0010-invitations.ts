import { sql } from "kysely";
import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/**
 * Invitations are rows of their own, and an e-mail address is a label until its holder has proven it. People who
 * were only invited so far are removed: whoever held any link for them could have become them in every project.
 */
export async function invitations(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { schema } = db;
  const { time, bytes, small, table } = types;

  await removePending(db);
  if (types.kind === "sqlite") await rebuildPeople(db, types);
  else {
    await schema.alterTable("people").dropConstraint("people_email_key").execute();
    await schema.alterTable("people").addColumn("proven_at", time).execute();
    await schema.alterTable("people").addColumn("sign_in_key", bytes).execute();
  }
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
    .createTable("sign_in_salts")
    .addColumn("email", "text", (c) => c.primaryKey().notNull())
    .addColumn("kept", "text", (c) => c.notNull())
    .modifyEnd(table)
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
}

/** A project whose only owners never came goes to the first person, who runs the installation. */
async function removePending(db: Kysely<unknown>): Promise<void> {
  await sql`
    insert into memberships (person_id, project_id, role, created_at)
    select people.id, projects.id, 'owner', projects.created_at
    from projects, meta
    join people on people.id = meta.value and people.sealed_password is not null
    where meta.key = 'first_person'
      and projects.id in (select project_id from memberships where role = 'owner')
      and projects.id not in (
        select memberships.project_id from memberships
        join people as owners on owners.id = memberships.person_id
        where memberships.role = 'owner' and owners.sealed_password is not null
      )
    on conflict (person_id, project_id) do update set role = 'owner'
  `.execute(db);
  const pending = sql`(select id from people where sealed_password is null)`;
  await sql`delete from memberships where person_id in ${pending}`.execute(db);
  await sql`delete from sessions where person_id in ${pending}`.execute(db);
  await sql`delete from device_codes where person_id in ${pending}`.execute(db);
  await sql`delete from people where sealed_password is null`.execute(db);
}

/** SQLite cannot drop a column's UNIQUE: the table is made anew, with the same rows. */
async function rebuildPeople(db: Kysely<unknown>, { time, bytes, table }: ColumnTypes): Promise<void> {
  // Until the commit others refer to rows that are not there for a moment.
  await sql`pragma defer_foreign_keys = on`.execute(db);
  await sql`create temporary table people_before as select * from people`.execute(db);
  await db.schema.dropTable("people").execute();
  await db.schema
    .createTable("people")
    .addColumn("id", "text", (c) => c.primaryKey().notNull())
    .addColumn("email", "text", (c) => c.notNull())
    .addColumn("proven_at", time)
    .addColumn("sign_in_key", bytes)
    .addColumn("sealed_password", bytes)
    .addColumn("created_at", time, (c) => c.notNull())
    .addColumn("updated_at", time, (c) => c.notNull())
    .modifyEnd(table)
    .execute();
  await sql`
    insert into people (id, email, sealed_password, created_at, updated_at)
    select id, email, sealed_password, created_at, updated_at from people_before
  `.execute(db);
  await sql`drop table people_before`.execute(db);
}
