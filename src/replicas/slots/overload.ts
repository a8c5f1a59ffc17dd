import type { Refused } from "../../model/outcome.ts";

const MAX_SECONDS = 60;

/** The refusal of a caller for whom there is no room: it may come again when those before it are served. */
export function overload(
  code: "queue_full" | "queue_timeout",
  queue: { readonly waiting: number; readonly slots: number; readonly meanMs: number },
): Refused {
  const clearsInSeconds = (queue.waiting * queue.meanMs) / queue.slots / 1000;
  const retryAfterSeconds = Math.min(MAX_SECONDS, Math.max(1, Math.ceil(clearsInSeconds)));
  return { kind: "refused", code, retryAfterSeconds };
}
