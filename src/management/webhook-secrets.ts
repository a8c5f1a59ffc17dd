import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import { AppError } from "../model/errors.ts";
import type { SigningSecrets } from "../runs/webhooks/signing-secrets.ts";
import { ID } from "../shapes/common.ts";
import { NEW_SIGNING_SECRET, SIGNING_SECRETS } from "../shapes/deliveries.ts";
import { timestamp } from "../shapes/timestamp.ts";
import type { Store } from "../store/store.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { record } from "./api/record.ts";
import { PROJECT_PATH } from "./api/schemas.ts";

export type WebhookSecretParts = {
  readonly store: Store;
  readonly signingSecrets: SigningSecrets;
  readonly audit: Pick<Audit, "record">;
};

/** Each delivery carries a signature of every one. */
const MAX_ACTIVE = 10;
const TAG = "Webhooks";
const PATH = "/v2/projects/{project_id}/webhook-secrets";

/** The secrets that a project's webhooks are signed with: list, make, remove. */
export function webhookSecretOperations({
  store,
  signingSecrets,
  audit,
}: WebhookSecretParts): AnyOperation[] {
  const active = async (projectId: string) =>
    (await store.webhookSecrets.list(projectId)).filter(({ retiredAt }) => retiredAt === null);

  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listWebhookSecrets",
      tag: TAG,
      summary: "List the webhook secrets in use, without their values",
      access: "deploy",
      params: PROJECT_PATH,
      response: SIGNING_SECRETS,
      handle: async ({ params }) =>
        (await active(params.project_id)).map(({ id, createdAt }) => ({
          id,
          createdAt: timestamp(createdAt),
        })),
    }),
    operation({
      method: "POST",
      path: PATH,
      id: "createWebhookSecret",
      tag: TAG,
      summary: "Create a webhook secret; its value is shown only once",
      access: "admin",
      params: PROJECT_PATH,
      response: NEW_SIGNING_SECRET,
      handle: async (call) => {
        const { project_id: projectId } = call.params;
        if ((await active(projectId)).length >= MAX_ACTIVE) {
          const message = `A project has at most ${MAX_ACTIVE} webhook secrets.`;
          throw new AppError("bad_request", { message });
        }
        const { id, createdAt, secret } = await signingSecrets.make(projectId);
        await record(audit, call, {
          action: "webhook-secret.create",
          target: id,
          before: null,
          after: { id },
        });
        call.reply.header("cache-control", "no-store");
        return { id, createdAt: timestamp(createdAt), secret };
      },
    }),
    operation({
      method: "DELETE",
      path: `${PATH}/{id}`,
      id: "deleteWebhookSecret",
      tag: TAG,
      summary: "Remove a webhook secret",
      access: "admin",
      params: PROJECT_PATH.extend({ id: z.string().min(1).max(100) }),
      response: ID,
      errors: ["not_found"],
      handle: async (call) => {
        const { project_id: projectId, id } = call.params;
        if (!(await signingSecrets.retire(projectId, id))) throw new AppError("not_found");
        await record(audit, call, {
          action: "webhook-secret.delete",
          target: id,
          before: { id },
          after: null,
        });
        return { id };
      },
    }),
  ];
}
