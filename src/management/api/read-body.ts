import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../kit/clock.ts";
import { KeptBody } from "../../kit/bytes.ts";
import { AppError } from "../../model/errors.ts";

/** How a body comes. */
export type Arrival = {
  readonly clock: Clock;
  /** How long it may take. */
  readonly timeoutMs: number;
  /** Tells a sender who waits for a word that it is wanted. */
  ask(): void;
};

/** How the body of a request will come. */
export function arrivalOf(
  { headers, httpVersion }: IncomingMessage,
  response: ServerResponse,
  times: Pick<Arrival, "clock" | "timeoutMs">,
): Arrival {
  return {
    ...times,
    ask: () => {
      // In HTTP/1.0 there is no such word.
      const isHeldBack = headers.expect !== undefined && httpVersion === "1.1";
      if (isHeldBack && !response.headersSent) response.writeContinue();
    },
  };
}

/** Reads a body whole; throws `body_too_large` as soon as that is certain, and `request_timeout`. */
export function readBody(from: IncomingMessage, maxBytes: number, arrival: Arrival): Promise<Buffer> {
  const { timeoutMs, clock } = arrival;
  if (Number(from.headers["content-length"] ?? 0) > maxBytes) return Promise.reject(tooLarge(maxBytes));
  arrival.ask();
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const kept = new KeptBody(maxBytes);
  const onData = (piece: Buffer): void => {
    kept.add(piece);
    if (kept.isTooLarge) reject(tooLarge(maxBytes));
  };
  const onEnd = (): void => {
    const body = kept.whole();
    if (body) resolve(body);
  };
  // It broke off, and nobody hears the answer.
  const onGone = (): void => reject(new AppError("bad_request"));
  const timer = clock.after(timeoutMs, () => reject(new AppError("request_timeout")));
  from.on("data", onData).once("end", onEnd).once("error", onGone).once("close", onGone);
  return promise.finally(() => {
    timer.cancel();
    from.off("data", onData).off("end", onEnd).off("error", onGone).off("close", onGone);
  });
}

function tooLarge(maxBytes: number): AppError {
  return new AppError("body_too_large", { message: `The body is larger than ${maxBytes} bytes.` });
}
