import type { IncomingMessage } from "node:http";
import { KeptBody } from "../kit/kept-body.ts";
import { AppError } from "../model/errors.ts";
import { LITTLE_BYTES, NO_ROOM } from "./body-room.ts";
import type { BodyReservation } from "./body-room.ts";
import type { RequestHead } from "./request-head.ts";

const JSON_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?;?$/i;
const NOTHING = Buffer.alloc(0);

/** Throws unless the body, if there is one, is announced as plain JSON of an acceptable length. */
export function checkBodyHead(head: RequestHead, maxBytes: number): void {
  if (!hasBody(head)) return;
  const { contentType, contentEncoding, contentLength } = head;
  if (contentType !== "application/json" && (contentType === null || !JSON_TYPE.test(contentType))) {
    throw new AppError("unsupported_media_type");
  }
  if (contentEncoding !== null && contentEncoding !== "identity")
    throw new AppError("unsupported_media_type");
  if (contentLength !== null && Number(contentLength) > maxBytes) throw tooLarge(maxBytes);
}

/** Whether a body is on its way at all. */
export function hasBody({ contentLength, isChunked }: RequestHead): boolean {
  return isChunked || (contentLength !== null && contentLength !== "0");
}

/** Whether the rest of a refused body is cheaper to read away than a new connection is. */
export function isSoonOver(head: RequestHead): boolean {
  if (!hasBody(head)) return true;
  return !head.isChunked && Number(head.contentLength) <= LITTLE_BYTES;
}

/**
 * Reads the body, never more of it than `maxBytes`; `done` is called once, with an error or the bytes. One that is not
 * small takes its place in `room`: connections are many, and what all of them send has to fit into memory.
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  room: () => BodyReservation,
  done: (error: AppError | null, body: Buffer) => void,
): void {
  const kept = new KeptBody(maxBytes);
  let reservation: BodyReservation | null = null;
  const refuse = (error: AppError): void => {
    request.removeAllListeners("data").removeAllListeners("end");
    done(error, NOTHING);
  };
  request.on("data", (piece: Buffer) => {
    const bytes = kept.bytes + piece.length;
    if (bytes > maxBytes) refuse(tooLarge(maxBytes));
    else if (bytes > LITTLE_BYTES && !(reservation ??= room()).growTo(bytes))
      refuse(new AppError("overloaded", NO_ROOM));
    else kept.add(piece);
  });
  request.on("end", () => done(null, kept.whole() ?? NOTHING));
}

/** The refusal of a body that is too large. */
export function tooLarge(maxBytes: number): AppError {
  return new AppError("body_too_large", {
    message: `The body is larger than max_body, which is ${maxBytes} bytes.`,
  });
}
