import { randomUUID } from "node:crypto";
import { AppError } from "../model/errors.ts";
import type { Outcome } from "../model/outcome.ts";
import { Call } from "../replicas/call.ts";
import type { Slots } from "../replicas/slots/slots.ts";

/** Calls no function: when that is answered, some replica has said what there is. Throws if none can start. */
export async function learnFunctions(slots: Slots<Call>): Promise<void> {
  const outcome = await new Promise<Outcome>((resolve) => {
    slots.submit(new Call(randomUUID(), "", Buffer.alloc(0), { onEnd: resolve }));
  });
  if (outcome.kind !== "refused") return;
  const { code, message, retryAfterSeconds = 1 } = outcome;
  const headers = { "retry-after": String(retryAfterSeconds) };
  throw new AppError(code, message === undefined ? { headers } : { message, headers });
}
