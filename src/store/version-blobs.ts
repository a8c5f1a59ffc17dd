import { uuidBytes } from "../kit/ids.ts";
import type { VersionBlobs } from "../model/app.ts";
import { read, write } from "./operation.ts";

const COLLECTED_AT = "blobs_collected_at";

/** What holds the packages of a version. */
export type EnvironmentBlob = Omit<VersionBlobs, "bundleBlob" | "bundleBytes">;

/** Which blobs the versions are kept in. */
export const versionBlobs = {
  /** Names those of a version, each unless it has one; nothing if there is no such version. */
  add: write(
    async ({ db }, { id, blobs }: { readonly id: string; readonly blobs: VersionBlobs }): Promise<void> => {
      const { bundleBlob, bundleBytes, environmentBlob, environmentBytes, environmentTag } = blobs;
      const ofVersion = () => db.updateTable("versions").where("id", "=", uuidBytes(id));
      if (bundleBlob !== null)
        await ofVersion().set({ bundleBlob, bundleBytes }).where("bundleBlob", "is", null).execute();
      if (environmentBlob === null) return;
      await ofVersion()
        .set({ environmentBlob, environmentBytes, environmentTag })
        .where("environmentBlob", "is", null)
        .where("environment", "is not", null)
        .execute();
    },
  ),

  /** What holds an environment, by its id, if some version says so. */
  ofEnvironment: read(async ({ db }, environment: string): Promise<EnvironmentBlob | null> => {
    const row = await db
      .selectFrom("versions")
      .select(["environmentBlob", "environmentBytes", "environmentTag"])
      .where("environment", "=", environment)
      .where("environmentBlob", "is not", null)
      .limit(1)
      .executeTakeFirst();
    return row ?? null;
  }),

  /** Of these hashes, those that any version names, of deleted apps too. */
  named: read(async ({ db }, hashes: readonly string[]): Promise<string[]> => {
    const rows = await db
      .selectFrom("versions")
      .select(["bundleBlob", "environmentBlob"])
      .where((eb) => eb.or([eb("bundleBlob", "in", hashes), eb("environmentBlob", "in", hashes)]))
      .execute();
    return rows.flatMap(({ bundleBlob, environmentBlob }) =>
      [bundleBlob ?? [], environmentBlob ?? []].flat(),
    );
  }),

  /** Whether the caller is to collect what nobody names: one of all who ask within that time, by the database's clock. */
  takeCollection: write(async ({ db, databaseNow }, everyMs: number): Promise<boolean> => {
    const { now } = await db.selectNoFrom([databaseNow.as("now")]).executeTakeFirstOrThrow();
    const value = String(now);
    const { numInsertedOrUpdatedRows } = await db
      .insertInto("meta")
      .values({ key: COLLECTED_AT, value })
      .onConflict((conflict) => conflict.column("key").doNothing())
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows === 1n) return true;
    const last = await db
      .selectFrom("meta")
      .select("value")
      .where("key", "=", COLLECTED_AT)
      .executeTakeFirstOrThrow();
    if (now - Number(last.value) < everyMs) return false;
    const { numUpdatedRows } = await db
      .updateTable("meta")
      .set({ value })
      .where("key", "=", COLLECTED_AT)
      .where("value", "=", last.value)
      .executeTakeFirst();
    return numUpdatedRows === 1n;
  }),
};
