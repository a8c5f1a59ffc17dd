import { read, statement, write } from "./operation.ts";

/** Facts about this installation, by key. */
export const meta = {
  get: read(async ({ db }, key: string): Promise<string | null> => {
    const row = await db.selectFrom("meta").select("value").where("key", "=", key).executeTakeFirst();
    return row?.value ?? null;
  }),

  /** Stores the value unless the key has one; the value that stands is returned, to every caller the same. */
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

  /** Writes something, so that one knows whether the database can; what it writes means nothing. */
  prove: statement(async ({ db }): Promise<void> => {
    const value = String(Math.random());
    await db
      .insertInto("meta")
      .values({ key: "probe", value })
      .onConflict((conflict) => conflict.column("key").doUpdateSet({ value }))
      .execute();
  }),
};
