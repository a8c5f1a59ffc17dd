import type { Delivery } from "../../model/delivery.ts";
import { callerSignature, standardSignature } from "./sign.ts";

type Signing = {
  /** The project's active ones. */
  readonly secrets: readonly string[];
  /** The one that the caller of the run sent. */
  readonly callerSecret: Uint8Array | null;
  /** Of this attempt. */
  readonly timestampSeconds: number;
};

/** The headers of one attempt; they are sent and kept on record as they are. */
export function deliveryHeaders(
  { id, contentType, runStatus }: Delivery,
  body: Uint8Array,
  { secrets, callerSecret, timestampSeconds }: Signing,
): Record<string, string> {
  const signable = { id, timestampSeconds, body };
  return {
    ...(contentType !== null && { "content-type": contentType }),
    "content-length": String(body.byteLength),
    "user-agent": "Millrace-Webhooks",
    "x-request-id": id,
    "x-millrace-run-status": String(runStatus),
    "webhook-id": id,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": standardSignature(secrets, signable),
    ...(callerSecret !== null && {
      "x-cerebrium-webhook-timestamp": String(timestampSeconds),
      "x-cerebrium-webhook-signature": callerSignature(callerSecret, signable),
    }),
  };
}
