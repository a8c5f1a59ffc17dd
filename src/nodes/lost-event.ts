import { gzipBlocks } from "../kit/gzip-member.ts";
import { AppError, errorBody } from "../model/errors.ts";
import { EVENTS_HEADER } from "./hop-head.ts";

/** Whether an answer of another node is a stream of events that the service there writes itself. */
export function isEvents(headers: readonly string[]): boolean {
  return headers[0] === EVENTS_HEADER;
}

/**
 * The last message of such a stream whose node was lost: `event: error` with `node_lost`, as it follows on whole messages.
 * Compressed, it follows without the trailer of the member, whose check sum only the lost node knew.
 */
export function lostEvent(headers: readonly string[]): Buffer {
  const body = errorBody(new AppError("node_lost"), valueOf(headers, "x-request-id") ?? "");
  const text = Buffer.from(`event: error\ndata: ${body}\n\n`);
  return valueOf(headers, "content-encoding") === "gzip" ? gzipBlocks(text) : text;
}

/** The value of a header; undefined if it is not there. */
export function valueOf(headers: readonly string[], name: string): string | undefined {
  const at = headers.findIndex((field, i) => i % 2 === 0 && field.toLowerCase() === name);
  return at === -1 ? undefined : headers[at + 1];
}
