import { all, firstOf } from "../queries.ts";
import { isNoted, noteChange } from "../nodes/changes.ts";
import { read, type Row, type Session, write } from "../operation.ts";

// Secrets of apps, secrets that sign webhooks, and keys that sign tokens: all are sealed before they are passed here.

/** The app of a map of secrets; number 0 stands for its whole project. */
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
    const map = db.selectFrom("secrets").select("sealedMap").where(all({ projectId, appNumber }));
    return (await firstOf(map))?.sealedMap ?? null;
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
  list: read(async ({ db }, projectId: string): Promise<WebhookSecret[]> => {
    const ofProject = db.selectFrom("webhookSecrets").selectAll().where("projectId", "=", projectId);
    return await ofProject.orderBy("createdAt", "desc").orderBy("id", "desc").execute();
  }),

  /** False if the project has no such secret, or if it was retired before. */
  retire: write(async (session, { id, projectId, now }: Retirement): Promise<boolean> => {
    const retirement = session.db.updateTable("webhookSecrets").set({ retiredAt: now });
    const active = all({ id, projectId, retiredAt: null });
    return await isNoted(session, retirement.where(active), "webhook-secrets", projectId);
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
    for (const { id } of older)
      await db.updateTable("signingKeys").set({ retiredAt: key.createdAt }).where("id", "=", id).execute();
    // The newest key signs, even if the clock was set back.
    const newest = { ...key, createdAt: Math.max(key.createdAt, (last?.createdAt ?? 0) + 1) };
    await db.insertInto("signingKeys").values(newest).execute();
    await noteChange(session, "keys", "");
  }),

  /** The keys that are not retired, newest first: the first one signs, all of them verify. */
  listActive: read(activeKeys),
};

async function activeKeys({ db }: Session): Promise<SigningKey[]> {
  const active = db.selectFrom("signingKeys").selectAll().where("retiredAt", "is", null);
  return await active.orderBy("createdAt", "desc").orderBy("id", "desc").execute();
}
