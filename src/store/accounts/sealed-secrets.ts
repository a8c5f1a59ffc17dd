import type { Row } from "../schema/schema.ts";
import { noteChange } from "../nodes/changes.ts";
import { read, write } from "../operation.ts";

/** Where a map of secrets belongs: to an app, or with number 0 to its whole project. */
export type SecretScope = { readonly projectId: string; readonly appNumber: number };

/** What a change of secrets is about, as it is told to other services. */
function subjectOf({ projectId, appNumber }: SecretScope): string {
  return `${projectId}/${appNumber}`;
}

/** The scope that such a subject names. */
export function scopeOf(subject: string): SecretScope {
  const end = subject.lastIndexOf("/");
  return { projectId: subject.slice(0, end), appNumber: Number(subject.slice(end + 1)) };
}

/** Maps of secrets, sealed before they get here. */
export const secrets = {
  find: read(async ({ db }, { projectId, appNumber }: SecretScope): Promise<Uint8Array | null> => {
    const row = await db
      .selectFrom("secrets")
      .select("sealedMap")
      .where("projectId", "=", projectId)
      .where("appNumber", "=", appNumber)
      .executeTakeFirst();
    return row?.sealedMap ?? null;
  }),

  replace: write(
    async (
      session,
      row: SecretScope & { readonly sealedMap: Uint8Array; readonly updatedAt: number },
    ): Promise<void> => {
      await session.db
        .insertInto("secrets")
        .values(row)
        .onConflict((conflict) =>
          conflict.columns(["projectId", "appNumber"]).doUpdateSet((eb) => ({
            sealedMap: eb.ref("excluded.sealedMap"),
            updatedAt: eb.ref("excluded.updatedAt"),
          })),
        )
        .execute();
      await noteChange(session, "secrets", subjectOf(row));
    },
  ),
};

/** A project's secret that signs deliveries; it is sealed before it gets here. */
type WebhookSecret = Row<"webhookSecrets">;

/** Secrets that sign deliveries. */
export const webhookSecrets = {
  insert: write(async (session, secret: Omit<WebhookSecret, "retiredAt">): Promise<void> => {
    await session.db.insertInto("webhookSecrets").values(secret).execute();
    await noteChange(session, "webhook-secrets", secret.projectId);
  }),

  /** A project's secrets, the retired ones too, newest first. */
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

  /** False when the project has no such secret, or it is retired already. */
  retire: write(
    async (
      session,
      input: { readonly id: string; readonly projectId: string; readonly now: number },
    ): Promise<boolean> => {
      const result = await session.db
        .updateTable("webhookSecrets")
        .set({ retiredAt: input.now })
        .where("id", "=", input.id)
        .where("projectId", "=", input.projectId)
        .where("retiredAt", "is", null)
        .executeTakeFirst();
      if (result.numUpdatedRows !== 1n) return false;
      await noteChange(session, "webhook-secrets", input.projectId);
      return true;
    },
  ),
};

/** A key that signs tokens; its private half is sealed before it gets here. */
export type SigningKey = Row<"signingKeys">;

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
