import { read, write } from "./operation.ts";
import type { SigningKeysTable } from "./schema.ts";

/** A key that signs tokens; its private half is sealed before it gets here. */
export type SigningKey = Readonly<SigningKeysTable>;

/** Keys that sign tokens. */
export const signingKeys = {
  insert: write(async ({ db }, key: Omit<SigningKey, "retiredAt">): Promise<void> => {
    await db.insertInto("signingKeys").values(key).execute();
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
