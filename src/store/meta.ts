import { randomBytes } from "node:crypto";
import { read, type Session, statement, write } from "./operation.ts";
import { doNothing } from "./queries.ts";

/** Enough to find out whether the database answers. */
export const PROBE_BYTES = 16;

type Entry = { readonly key: string; readonly value: string };

/** Facts about this installation, by key. */
export const meta = {
  get: read(async ({ db }, key: string): Promise<string | null> => {
    const row = await db.selectFrom("meta").select("value").where("key", "=", key).executeTakeFirst();
    return row?.value ?? null;
  }),

  /** The names of the migrations that were applied to the database. */
  migrations: read(async ({ sql, db }): Promise<string[]> => {
    const { rows } = await sql<{ name: string }>`select name from migrations order by name`.execute(db);
    return rows.map(({ name }) => name);
  }),

  /** Stores the value unless the key has one; returns the stored value, the same for every caller. */
  setIfAbsent: write(async ({ db }, entry: Entry): Promise<string> => {
    await db.insertInto("meta").values(entry).onConflict(doNothing).execute();
    const stored = db.selectFrom("meta").select("value").where("key", "=", entry.key);
    return (await stored.executeTakeFirstOrThrow()).value;
  }),

  /** Stores the value, and replaces an earlier one. */
  set: write(async ({ db }, { key, value }: Entry): Promise<void> => await setMeta(db, key, value)),

  /** Writes that many bytes, to find out whether the database can; their content means nothing. */
  prove: statement(async ({ db }, bytes: number): Promise<void> => {
    // Random, so that it is not compressed.
    await setMeta(db, "probe", randomBytes(Math.ceil((bytes * 3) / 4)).toString("base64"));
  }),
};

/** Stores the value of a key, and replaces an earlier one. */
export async function setMeta(db: Session["db"], key: string, value: string): Promise<void> {
  await db
    .insertInto("meta")
    .values({ key, value })
    .onConflict((conflict) => conflict.column("key").doUpdateSet({ value }))
    .execute();
}
