import type { Kysely } from "kysely";

/**
 * The blobs that hold a version's bundle and its packages, and which Python and platform those are for. Only added, so
 * that services of the release before go on beside this one.
 */
export async function blobs(db: Kysely<unknown>): Promise<void> {
  for (const name of ["bundle_blob", "environment_blob", "environment_tag"])
    await db.schema.alterTable("versions").addColumn(name, "text").execute();
  // By these it is found whether any version still names a blob.
  for (const name of ["bundle_blob", "environment_blob"])
    await db.schema.createIndex(`versions_by_${name}`).on("versions").column(name).execute();
}
