import { uuidBytes, uuidText } from "../kit/ids.ts";
import { read, write } from "./operation.ts";

/** What an idempotency key stands for. */
export type KeyedRun = { readonly runId: string; readonly fingerprint: Uint8Array };

type KeyQuery = {
  readonly appNumber: number;
  readonly keyHash: Uint8Array;
  /** Older ones count no more. */
  readonly since: number;
};

/** Idempotency keys, known by their hash. */
export const keys = {
  find: read(async ({ db }, { appNumber, keyHash, since }: KeyQuery): Promise<KeyedRun | null> => {
    const row = await db
      .selectFrom("idempotencyKeys")
      .select(["runId", "fingerprint"])
      .where("appNumber", "=", appNumber)
      .where("keyHash", "=", keyHash)
      .where("createdAt", ">", since)
      .executeTakeFirst();
    return row ? { runId: uuidText(row.runId), fingerprint: row.fingerprint } : null;
  }),

  /** Frees a key, if it still stands for that run. */
  forget: write(
    async (
      { db },
      key: { readonly appNumber: number; readonly keyHash: Uint8Array; readonly runId: string },
    ): Promise<void> => {
      await db
        .deleteFrom("idempotencyKeys")
        .where("appNumber", "=", key.appNumber)
        .where("keyHash", "=", key.keyHash)
        .where("runId", "=", uuidBytes(key.runId))
        .execute();
    },
  ),
};
