import { isNoted, noteChange } from "../nodes/changes.ts";
import { read, type Session, write } from "../operation.ts";
import type { Row } from "../schema/schema.ts";

// What is sealed before it gets here: secrets of apps, secrets that sign webhooks, and keys that sign tokens.

/** What a map of secrets belongs to: an app, or with number 0 its whole project. */
export type SecretScope = { readonly projectId: string; readonly appNumber: number };

type NewSecrets = SecretScope & { readonly sealedMap: Uint8Array; readonly updatedAt: number };

/** The scope that the subject of a change names. */
export function scopeOf(subject: string): SecretScope {
  const end = subject.lastIndexOf("/");
  return { projectId: subject.slice(0, end), appNumber: Number(subject.slice(end + 1)) };
}

/** Maps of secrets. */
export const secrets = {
  find: read(async ({ db }, { projectId, appNumber }: SecretScope): Promise<Uint8Array | null> => {
    const row = await db
      .selectFrom("secrets")
      .select("sealedMap")
      .where((eb) => eb.and({ projectId, appNumber }))
      .executeTakeFirst();
    return row?.sealedMap ?? null;
  }),

  replace: write(async (session, row: NewSecrets): Promise<void> => {
    const { projectId, appNumber, sealedMap, updatedAt } = row;
    await session.db
      .insertInto("secrets")
      .values(row)
      .onConflict((conflict) =>
        conflict.columns(["projectId", "appNumber"]).doUpdateSet({ sealedMap, updatedAt }),
      )
      .execute();
    await noteChange(session, "secrets", `${projectId}/${appNumber}`);
  }),
};

/** A project's secret that signs deliveries. */
type WebhookSecret = Row<"webhookSecrets">;

type Retirement = Pick<WebhookSecret, "id" | "projectId"> & { readonly now: number };

/** Secrets that sign deliveries. */
export const webhookSecrets = {
  insert: write(async (session, secret: Omit<WebhookSecret, "retiredAt">): Promise<void> => {
    await session.db.insertInto("webhookSecrets").values(secret).execute();
    await noteChange(session, "webhook-secrets", secret.projectId);
  }),

  /** A project's secrets, including retired ones, newest first. */
  list: read(
    async ({ db }, projectId: string): Promise<WebhookSecret[]> =>
      await db
        .selectFrom("webhookSecrets")
        .selectAll()
        .where("projectId", "=", projectId)
        .orderBy("createdAt", "desc")
        .orderBy("id", "desc")
        .execute(),
  ),

  /** False if the project has no such secret, or if it was retired before. */
  retire: write(async (session, { id, projectId, now }: Retirement): Promise<boolean> => {
    const retirement = session.db
      .updateTable("webhookSecrets")
      .set({ retiredAt: now })
      .where((eb) => eb.and({ id, projectId, retiredAt: null }));
    return await isNoted(session, retirement, "webhook-secrets", projectId);
  }),
};

/** A key that signs tokens; only its private half is sealed. */
export type SigningKey = Row<"signingKeys">;

/** Keys that sign tokens. */
export const signingKeys = {
  insert: write(async (session, key: Omit<SigningKey, "retiredAt">): Promise<void> => {
    await session.db.insertInto("signingKeys").values(key).execute();
    await noteChange(session, "keys", "");
  }),

  /** Stores a key that signs from now on, and retires all earlier keys except the newest. */
  rotate: write(async (session, key: Omit<SigningKey, "retiredAt">): Promise<void> => {
    const { db } = session;
    const [last, ...older] = await activeKeys(session);
    const retired = older.map(({ id }) => id);
    if (retired.length > 0) {
      const retirement = db.updateTable("signingKeys").set({ retiredAt: key.createdAt });
      await retirement.where("id", "in", retired).execute();
    }
    // The newest key signs, even if the clock was set back.
    const createdAt = Math.max(key.createdAt, (last?.createdAt ?? 0) + 1);
    const row = { ...key, createdAt };
    await db.insertInto("signingKeys").values(row).execute();
    await noteChange(session, "keys", "");
  }),

  /** The keys that are not retired, newest first: the first one signs, all of them verify. */
  listActive: read(activeKeys),
};

async function activeKeys({ db }: Session): Promise<SigningKey[]> {
  return await db
    .selectFrom("signingKeys")
    .selectAll()
    .where("retiredAt", "is", null)
    .orderBy("createdAt", "desc")
    .orderBy("id", "desc")
    .execute();
}
