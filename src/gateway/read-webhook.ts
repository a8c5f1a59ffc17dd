import type { AddressRanges } from "../kit/address-ranges.ts";
import type { Seal } from "../kit/seal.ts";
import { AppError } from "../model/errors.ts";
import type { Webhook } from "../runs/live-run.ts";
import { parseWebhookUrl } from "../runs/webhooks/target.ts";
import type { RequestHead } from "./request-head.ts";

export type WebhookParts = {
  readonly seal: Seal;
  /** Private addresses that webhooks may reach all the same. */
  readonly webhookAllow: AddressRanges;
};

const MAX_SECRET_CHARS = 1024;

/** Where a run's response is to go, with the secret that its caller gave for it; throws if it may not go there. */
export function readWebhook(
  runId: string,
  head: RequestHead,
  endpoint: string,
  { seal, webhookAllow }: WebhookParts,
): Webhook {
  const { href } = parseWebhookUrl(endpoint, webhookAllow);
  const secret = head.webhookSecret;
  if (secret === null) return { endpoint: href, sealedSecret: null };
  if (secret === "" || secret.length > MAX_SECRET_CHARS) {
    throw new AppError("bad_request", {
      message: `X-Webhook-Secret must have 1 to ${MAX_SECRET_CHARS} characters.`,
    });
  }
  return { endpoint: href, sealedSecret: seal.close(Buffer.from(secret), `webhook_secret.${runId}`) };
}
