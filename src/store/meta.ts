import { randomBytes } from "node:crypto";
import { read, statement, write } from "./operation.ts";

/** Enough to find out whether somebody answers. */
export const PROBE_BYTES = 16;

/** Facts about this installation, by key. */
export const meta = {
  get: read(async ({ db }, key: string): Promise<string | null> => {
    const row = await db.selectFrom("meta").select("value").where("key", "=", key).executeTakeFirst();
    return row?.value ?? null;
  }),

  /** The names of the migrations that the database has been through. */
  migrations: read(async ({ sql, db }): Promise<string[]> => {
    const { rows } = await sql<{ name: string }>`select name from migrations order by name`.execute(db);
    return rows.map(({ name }) => name);
  }),

  /** Stores the value unless the key already has one; returns the stored value, the same for every caller. */
  setIfAbsent: write(
    async ({ db }, entry: { readonly key: string; readonly value: string }): Promise<string> => {
      await db
        .insertInto("meta")
        .values(entry)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      const row = await db
        .selectFrom("meta")
        .select("value")
        .where("key", "=", entry.key)
        .executeTakeFirstOrThrow();
      return row.value;
    },
  ),

  /** Stores the value, whatever the key had before. */
  set: write(async ({ db }, entry: { readonly key: string; readonly value: string }): Promise<void> => {
    const { value } = entry;
    await db
      .insertInto("meta")
      .values(entry)
      .onConflict((conflict) => conflict.column("key").doUpdateSet({ value }))
      .execute();
  }),

  /** Writes something of that size, so that one knows whether the database can; what it writes means nothing. */
  prove: statement(async ({ db }, bytes: number): Promise<void> => {
    // Random, so that it is not compressed.
    const value = randomBytes(Math.ceil((bytes * 3) / 4)).toString("base64");
    await db
      .insertInto("meta")
      .values({ key: "probe", value })
      .onConflict((conflict) => conflict.column("key").doUpdateSet({ value }))
      .execute();
  }),
};
