import { read, write } from "./operation.ts";
import type { DeviceCodesTable } from "./schema-people.ts";

/** A command line's wish to be signed in; of its two codes only hashes are kept. */
export type DeviceCode = Readonly<DeviceCodesTable>;

/** Codes by which a command line asks for a session. */
export const deviceCodes = {
  insert: write(async ({ db }, code: Omit<DeviceCode, "personId">): Promise<void> => {
    // Here, so that the table stays small without anybody looking after it.
    await db.deleteFrom("deviceCodes").where("expiresAt", "<=", code.createdAt).execute();
    await db.insertInto("deviceCodes").values(code).execute();
  }),

  find: read(async ({ db }, deviceHash: Uint8Array): Promise<DeviceCode | null> => {
    const row = await db
      .selectFrom("deviceCodes")
      .selectAll()
      .where("deviceHash", "=", deviceHash)
      .executeTakeFirst();
    return row ?? null;
  }),

  /** False when no such code waits for somebody. */
  approve: write(
    async (
      { db },
      input: { readonly userHash: Uint8Array; readonly personId: string; readonly now: number },
    ): Promise<boolean> => {
      const result = await db
        .updateTable("deviceCodes")
        .set({ personId: input.personId })
        .where("userHash", "=", input.userHash)
        .where("personId", "is", null)
        .where("expiresAt", ">", input.now)
        .executeTakeFirst();
      return result.numUpdatedRows === 1n;
    },
  ),

  /** Who approved the code, told once; null when nobody did, or it has been told. */
  take: write(
    async (
      { db },
      { deviceHash, now }: { readonly deviceHash: Uint8Array; readonly now: number },
    ): Promise<string | null> => {
      const taken = await db
        .deleteFrom("deviceCodes")
        .where("deviceHash", "=", deviceHash)
        .where("personId", "is not", null)
        .where("expiresAt", ">", now)
        .returning("personId")
        .executeTakeFirst();
      return taken?.personId ?? null;
    },
  ),
};
