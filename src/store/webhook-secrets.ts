import { read, write } from "./operation.ts";
import type { WebhookSecretsTable } from "./schema.ts";

/** A project's secret that signs deliveries; it is sealed before it gets here. */
export type WebhookSecret = Readonly<WebhookSecretsTable>;

/** Secrets that sign deliveries. */
export const webhookSecrets = {
  insert: write(async ({ db }, secret: Omit<WebhookSecret, "retiredAt">): Promise<void> => {
    await db.insertInto("webhookSecrets").values(secret).execute();
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
      { db },
      input: { readonly id: string; readonly projectId: string; readonly now: number },
    ): Promise<boolean> => {
      const result = await db
        .updateTable("webhookSecrets")
        .set({ retiredAt: input.now })
        .where("id", "=", input.id)
        .where("projectId", "=", input.projectId)
        .where("retiredAt", "is", null)
        .executeTakeFirst();
      return result.numUpdatedRows === 1n;
    },
  ),
};
