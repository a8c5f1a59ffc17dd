import type { IncomingMessage } from "node:http";
import type { FastifyReply } from "fastify";
import { AppError } from "../../model/errors.ts";

/** Less than this within the body's time is no upload that anybody waits for. */
const LEAST_BYTES = 64 * 1024;

/** Has the bytes of a request read, for as long as they come: a sender who all but stops is given up. */
export async function takeBytes<T>(
  reply: FastifyReply,
  take: (from: IncomingMessage) => Promise<T>,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<T> {
  const { raw, arrival } = reply.request;
  // Who takes the bytes counts them; a length that is told can be answered, bytes that go on coming cannot.
  if (Number(raw.headers["content-length"] ?? 0) > maxBytes) throw new AppError("body_too_large");
  if (!arrival) throw new Error("bytes were taken before their request was received");
  const { clock, timeoutMs } = arrival;
  let seen = raw.socket.bytesRead;
  const timer = clock.every(timeoutMs, () => {
    const { bytesRead } = raw.socket;
    if (bytesRead - seen < LEAST_BYTES && !raw.complete) raw.destroy();
    seen = bytesRead;
  });
  arrival.ask();
  try {
    return await take(raw);
  } catch (error) {
    // The sender has gone, and nobody hears the answer.
    throw raw.destroyed && !raw.complete ? new AppError("bad_request") : error;
  } finally {
    timer.cancel();
  }
}
