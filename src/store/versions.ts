import { uuidBytes, uuidText } from "../kit/ids.ts";
import type { FunctionSignature, Version } from "../model/app.ts";
import type { AppConfig } from "../model/app-config.ts";
import { AppError } from "../model/errors.ts";
import { read, write } from "./operation.ts";
import type { VersionsTable } from "./schema.ts";

type NewVersion = Pick<Version, "id" | "appNumber" | "config" | "bundleDir" | "createdAt">;

/** Versions: the immutable deploys of apps. */
export const versions = {
  /** Stores a version under the app's next number. Throws `app_not_found` when there is no such app. */
  insert: write(async ({ db }, version: NewVersion): Promise<Version> => {
    // The app's row is written first: its lock makes two deploys of one app take their numbers in turn.
    const app = await db
      .updateTable("apps")
      .set({ updatedAt: version.createdAt })
      .where("number", "=", version.appNumber)
      .where("deletedAt", "is", null)
      .executeTakeFirst();
    if (app.numUpdatedRows === 0n) throw new AppError("app_not_found");
    const { last } = await db
      .selectFrom("versions")
      .select((eb) => eb.fn.max("number").as("last"))
      .where("appNumber", "=", version.appNumber)
      .executeTakeFirstOrThrow();
    const row = {
      ...version,
      id: uuidBytes(version.id),
      number: (last ?? 0) + 1,
      config: JSON.stringify(version.config),
      functions: null,
    };
    await db.insertInto("versions").values(row).execute();
    return fromRow(row);
  }),

  find: read(async ({ db }, id: string): Promise<Version | null> => {
    const row = await db
      .selectFrom("versions")
      .selectAll()
      .where("id", "=", uuidBytes(id))
      .executeTakeFirst();
    return row ? fromRow(row) : null;
  }),

  /** An app's versions, newest first. */
  list: read(async ({ db }, appNumber: number): Promise<Version[]> => {
    const rows = await db
      .selectFrom("versions")
      .selectAll()
      .where("appNumber", "=", appNumber)
      .orderBy("number", "desc")
      .execute();
    return rows.map(fromRow);
  }),

  /** Bundles that lay below one directory lie below another one now. */
  moveBundles: write(
    async ({ db, sql }, { from, to }: { readonly from: string; readonly to: string }): Promise<void> => {
      const prefix = sql<string>`cast(${`${from}/`} as text)`;
      await sql`
        update versions set bundle_dir = ${`${to}/`} || substr(bundle_dir, length(${prefix}) + 1)
        where substr(bundle_dir, 1, length(${prefix})) = ${prefix}
      `.execute(db);
    },
  ),

  /** Records what a replica said can be called. False when there is no such version. */
  setFunctions: write(
    async (
      { db },
      { id, functions }: { readonly id: string; readonly functions: readonly FunctionSignature[] },
    ): Promise<boolean> => {
      const result = await db
        .updateTable("versions")
        .set({ functions: JSON.stringify(functions) })
        .where("id", "=", uuidBytes(id))
        .executeTakeFirst();
      return result.numUpdatedRows === 1n;
    },
  ),
};

function fromRow(row: VersionsTable): Version {
  return {
    ...row,
    id: uuidText(row.id),
    config: JSON.parse(row.config) as AppConfig,
    functions: row.functions === null ? null : (JSON.parse(row.functions) as FunctionSignature[]),
  };
}
