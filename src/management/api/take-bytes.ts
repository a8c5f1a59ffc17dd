import type { IncomingMessage } from "node:http";
import type { FastifyReply } from "fastify";
import { AppError } from "../../model/errors.ts";

/** A sender who sends nothing for so long is given up. */
const STALL_MS = 60_000;

/** Has the bytes of a request read, for as long as they come. */
export async function takeBytes<T>(
  reply: FastifyReply,
  take: (from: IncomingMessage) => Promise<T>,
): Promise<T> {
  const { raw } = reply.request;
  raw.setTimeout(STALL_MS, () => raw.destroy());
  try {
    return await take(raw);
  } catch (error) {
    // The sender has gone, and nobody hears the answer.
    throw raw.destroyed && !raw.complete ? new AppError("bad_request") : error;
  } finally {
    raw.setTimeout(0);
  }
}
