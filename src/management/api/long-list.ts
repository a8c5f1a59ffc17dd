import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { systemClock } from "../../kit/clock.ts";
import type { Clock } from "../../kit/clock.ts";
import { FairLane } from "../../kit/concurrency.ts";
import { AppError } from "../../model/errors.ts";

/** One at a time of each project: a list may take megabytes until it is read. */
const LIMITS = { total: Number.POSITIVE_INFINITY, perKey: 1, waiting: 32, waitMs: 10_000 } as const;
/** Entries that are written in one go: a fraction of a millisecond. */
const PER_PIECE = 500;

/** Answers with lists that may be long: one of a project at a time, written piece by piece. */
export class LongLists {
  readonly #lane: FairLane;

  constructor(clock: Clock = systemClock) {
    this.#lane = new FairLane(LIMITS, clock);
  }

  /** Sends what `read` gives, when it is the project's turn; that lasts until the answer has left. */
  async send<Entry>(
    reply: FastifyReply,
    projectId: string,
    read: () => Promise<readonly Entry[]>,
  ): Promise<FastifyReply> {
    const leave = await this.#lane.enter(projectId);
    if (!leave) throw new AppError("too_many_in_flight", { headers: { "retry-after": "1" } });
    reply.raw.once("close", leave);
    // It may have closed while it waited.
    if (reply.raw.destroyed) leave();
    const pieces = Readable.from(jsonPieces(await read()), { objectMode: false });
    return reply.type("application/json").send(pieces);
  }
}

/** A JSON list as text, a few entries at a time. */
export function* jsonPieces(entries: readonly unknown[], perPiece = PER_PIECE): Generator<string> {
  let open = "[";
  for (let first = 0; first < entries.length; first += perPiece) {
    yield open + JSON.stringify(entries.slice(first, first + perPiece)).slice(1, -1);
    open = ",";
  }
  yield entries.length === 0 ? "[]" : "]";
}
