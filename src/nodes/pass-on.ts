import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../model/errors.ts";
import type { AppKey, Elsewhere } from "./elsewhere.ts";
import { MOVED_HEADER, MOVED_STATUS } from "./hop-head.ts";
import type { Passage } from "./passage.ts";
import type { Peer } from "./peer.ts";

/**
 * To the node that should have the app, and to the one that has it then. While nodes take over from a dead one, that may
 * be yet another by the time it is asked. Nothing of the request has begun before.
 */
const MAX_TRIES = 5;
const UNREACHED = {
  message: "The node that has this app cannot be reached; try again shortly.",
  headers: { "retry-after": "1" },
};

/**
 * Sends a request to the node that has its app, and if it has it no more to the one that has it then. Says whether it was
 * answered, or has to be answered here. Throws `node_lost`, and `app_not_ready` when nobody was found.
 */
export async function passOn(
  elsewhere: Elsewhere,
  app: AppKey,
  passage: Passage,
  to: Peer,
): Promise<"done" | "here"> {
  let peer = to;
  try {
    for (let tries = 1; ; tries += 1) {
      const passed = await passage.to(peer);
      if (passed === "done") return passed;
      if (passed === "lost") throw new AppError("node_lost");
      const place = tries < MAX_TRIES ? await elsewhere.retry(app, peer, passed, passage.gone) : null;
      if (passage.gone.aborted) return "done";
      if (!place) throw new AppError("app_not_ready", UNREACHED);
      if (place.kind === "here" && !passage.hasRead) return "here";
      // A body that has been read can only be sent.
      peer = place.kind === "here" ? elsewhere.self : place.peer;
    }
  } finally {
    passage.release();
  }
}

/** Tells the node that passed a request on to ask again where the app is; nothing of the request was begun. */
export function answerMoved(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(MOVED_STATUS, [MOVED_HEADER, "1", "content-length", "0"]).end();
  if (!request.complete) request.resume();
}
