import { SseParser } from "../../src/client/sse.ts";
import type { Message } from "../../src/client/sse.ts";
import { errorIn } from "../../src/shapes/shape.ts";
import { ApiError } from "./answer.ts";
import { askApps } from "./http.ts";
import { runPath } from "./runs.ts";
import type { RunIds } from "./runs.ts";

const MAX_IDLE_TRIES = 10;
const RETRY_MS = 1_000;

/** What becomes of each message of a run; false when no more is wanted. */
export type OnMessage = (message: Message) => boolean;

/**
 * Reads what a run yields from its beginning to its end, while it runs or later. A connection that breaks is taken up
 * where it broke.
 */
export async function followRun(ids: RunIds, onMessage: OnMessage, signal: AbortSignal): Promise<void> {
  let lastId: string | null = null;
  for (let idleTries = 0; idleTries < MAX_IDLE_TRIES && !signal.aborted; idleTries += 1) {
    const headers = lastId === null ? {} : { "last-event-id": lastId };
    try {
      const response: Response = await askApps(`${runPath(ids)}/events`, { headers, signal });
      if (response.status === 204) return;
      if (!response.ok) throw await ApiError.of(response);
      let isBrokenOff = false;
      const isEnded = await readEvents(response, (message) => {
        if (message.event === "end") return false;
        isBrokenOff = isFailure(message, response);
        if (isBrokenOff) return false;
        lastId = message.id ?? lastId;
        idleTries = 0;
        return onMessage(message);
      });
      if (isEnded && !isBrokenOff) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status < 500) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS * (idleTries + 1)));
  }
  if (!signal.aborted) throw new Error("The connection broke too often. Reload the page to try again.");
}

/** Whether the service says that it gives up on this answer; if the reason lasts, the next answer is an error. */
function isFailure({ event, data }: Message, { headers }: Response): boolean {
  if (event !== "error") return false;
  try {
    return errorIn(JSON.parse(data))?.request_id === headers.get("x-request-id");
  } catch {
    return false;
  }
}

/** Gives each message of an answer; true when `onMessage` wanted no more, false when the answer ended before. */
export async function readEvents(response: Response, onMessage: OnMessage): Promise<boolean> {
  const reader = response.body?.getReader();
  if (!reader) return false;
  const parser = new SseParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    for (const message of parser.feed(value)) {
      if (onMessage(message)) continue;
      await reader.cancel();
      return true;
    }
  }
}
