import { noteChange } from "./changes.ts";
import { read, write } from "./operation.ts";
import type { SigningKeysTable } from "./schema.ts";

/** A key that signs tokens; its private half is sealed before it gets here. */
export type SigningKey = Readonly<SigningKeysTable>;

/** Keys that sign tokens. */
export const signingKeys = {
  insert: write(async (session, key: Omit<SigningKey, "retiredAt">): Promise<void> => {
    await session.db.insertInto("signingKeys").values(key).execute();
    await noteChange(session, "keys", "");
  }),

  /** Stores a key that signs from now on, and retires all but the newest of those before it. */
  rotate: write(async (session, key: Omit<SigningKey, "retiredAt">): Promise<void> => {
    const { db } = session;
    const active = await db
      .selectFrom("signingKeys")
      .select(["id", "createdAt"])
      .where("retiredAt", "is", null)
      .orderBy("createdAt", "desc")
      .orderBy("id", "desc")
      .execute();
    const [last, ...older] = active;
    const retired = older.map(({ id }) => id);
    if (retired.length > 0) {
      await db
        .updateTable("signingKeys")
        .set({ retiredAt: key.createdAt })
        .where("id", "in", retired)
        .execute();
    }
    // The newest signs, whatever a clock that was set back says.
    const createdAt = Math.max(key.createdAt, (last?.createdAt ?? 0) + 1);
    await db
      .insertInto("signingKeys")
      .values({ ...key, createdAt })
      .execute();
    await noteChange(session, "keys", "");
  }),

  /** The keys that are not retired, newest first: the first one signs, all of them verify. */
  listActive: read(
    async ({ db }): Promise<SigningKey[]> =>
      await db
        .selectFrom("signingKeys")
        .selectAll()
        .where("retiredAt", "is", null)
        .orderBy("createdAt", "desc")
        .orderBy("id", "desc")
        .execute(),
  ),
};
