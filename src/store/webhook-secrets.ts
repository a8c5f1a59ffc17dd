import { noteChange } from "./changes.ts";
import { read, write } from "./operation.ts";
import type { WebhookSecretsTable } from "./schema.ts";

/** A project's secret that signs deliveries; it is sealed before it gets here. */
export type WebhookSecret = Readonly<WebhookSecretsTable>;

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
