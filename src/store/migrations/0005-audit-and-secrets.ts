import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";

/** The audit log, and the secrets of projects and apps. */
export async function auditAndSecrets(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { schema } = db;
  const { time, bytes, table } = types;

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
}
