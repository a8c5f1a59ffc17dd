import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { gzipBlocks } from "../../kit/gzip-member.ts";
import { fieldPairs } from "../../kit/http/fields.ts";
import type { ResponseHead } from "../../kit/http/response-parser.ts";
import { releaseBytes } from "../../kit/bytes.ts";
import { AppError, errorBody } from "../../model/errors.ts";
import { headerOf } from "../../model/http-request.ts";
import { EVENTS_HEADER } from "./hop-head.ts";

/** The request that is answered, and its callbacks. */
export type AnswerParts = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Whether the caller's connection ends with this answer. */
  readonly isLast: () => boolean;
  /** The head of the answer has left. */
  readonly onOpen: () => void;
  /** All of the answer was written, though it may not have been read. */
  readonly onWritten: () => void;
};

/** The source of an answer, paused while the caller does not read. */
type Source = { pause(): void; resume(): void };

/** Up to here copying a body into a string costs less than a second write. */
export const ONE_WRITE_BYTES = 16 * 1024;
/** The largest TLS record, and what Node reads at once: after that many, more is likely to follow in the same turn. */
const RECORD_BYTES = 16 * 1024;

/** Of the connection between the nodes. */
const OF_CONNECTION = new Set(["connection", "keep-alive", "transfer-encoding"]);
const NOTHING = Buffer.alloc(0);

/** Between the last bytes and the end of the connection, so that they can be read. */
const LAST_WORD_MS = 50;
const BREAK_OFF_MS = 1_000;

/**
 * Forwards an answer of another node to the caller: one read becomes one write, and so do several reads of one turn of the
 * event loop. The other node is not trusted: Node throws for headers that cannot be sent.
 */
export class ForwardedAnswer {
  readonly #parts: AnswerParts;
  readonly #source: Source;
  /** Not sent yet. */
  #head: ResponseHead | null = null;
  /** The last piece of the body that has come. */
  #latest: Buffer | null = null;
  #corked: Socket | null = null;
  #isFull = false;

  constructor(parts: AnswerParts, source: Source) {
    this.#parts = parts;
    this.#source = source;
  }

  begin(head: ResponseHead): void {
    this.#head = head;
  }

  add(bytes: Buffer): void {
    if (this.#latest) {
      this.#open();
      this.#write(this.#latest);
    }
    this.#latest = bytes;
  }

  /** All of `read` was added. Its memory is freed once it is sent, so no other code may use it. */
  flush(read: Buffer): void {
    const { response } = this.#parts;
    const last = this.#latest;
    this.#latest = null;
    const isNew = this.#open();
    if (!last) {
      if (isNew) response.flushHeaders();
      return;
    }
    const mayFollow = read.length >= RECORD_BYTES;
    if (mayFollow) this.#cork();
    const isTaken = this.#write(last, () => releaseBytes(read));
    if (!mayFollow || !isTaken) this.#uncork();
  }

  /** It is whole. */
  end(trailers: readonly string[]): void {
    const { response, onWritten } = this.#parts;
    const last = this.#latest;
    this.#latest = null;
    this.#open();
    if (response.destroyed) return;
    if (trailers.length > 0) response.addTrailers(fieldPairs(trailers));
    // Ends the cork too.
    if (last && last.length <= ONE_WRITE_BYTES) response.end(last.toString("latin1"), "latin1");
    else response.end(last ?? undefined);
    this.#corked = null;
    onWritten();
  }

  /** Ends the connection after `lastWords`, without the final chunk. Null: the other node has sent them. */
  breakOff(lastWords: Buffer | null, clock: Clock): void {
    const { response, onWritten } = this.#parts;
    const last = lastWords ?? this.#latest ?? NOTHING;
    this.#latest = null;
    this.#open();
    this.#uncork();
    if (response.destroyed) return;
    response.write(last, () => clock.after(LAST_WORD_MS, () => response.destroy()));
    // Whether or not the caller reads.
    clock.after(BREAK_OFF_MS, () => response.destroy());
    onWritten();
  }

  /** Writes the head if it has not left; whether it did. */
  #open(): boolean {
    const { request, response, isLast, onOpen } = this.#parts;
    const head = this.#head;
    this.#head = null;
    if (!head || response.destroyed || response.headersSent) return false;
    // The caller's connection ends with the other node's only if the rest of its body is not wanted.
    response.writeHead(head.status, answerHeaders(head.headers, !request.complete, isLast()));
    onOpen();
    return true;
  }

  /** Whether the caller takes more. */
  #write(bytes: Buffer, onSent?: () => void): boolean {
    const { response } = this.#parts;
    if (response.destroyed || response.write(bytes, onSent)) return true;
    if (this.#isFull) return false;
    this.#isFull = true;
    this.#source.pause();
    response.once("drain", () => {
      this.#isFull = false;
      this.#source.resume();
    });
    return false;
  }

  /** The socket's own: that of a response writes what it holds in many pieces (Node 24). */
  #cork(): void {
    if (this.#corked) return;
    this.#corked = this.#parts.response.socket;
    this.#corked?.cork();
    setImmediate(() => this.#uncork());
  }

  #uncork(): void {
    this.#corked?.uncork();
    this.#corked = null;
  }
}

/** The headers of an answer without those of the connection that it came on, unless that `mayClose` this one too. */
function answerHeaders(given: readonly string[], mayClose: boolean, mustClose: boolean): string[] {
  const headers: string[] = [];
  let isClosing = false;
  for (let i = 0; i < given.length; i += 2) {
    const name = given[i] ?? "";
    const value = given[i + 1] ?? "";
    const key = name.toLowerCase();
    if (key === "connection" && mayClose && value.toLowerCase() === "close") isClosing = true;
    else if (OF_CONNECTION.has(key)) continue;
    headers.push(name, value);
  }
  if (mustClose && !isClosing) headers.push("connection", "close");
  return headers;
}

/** Whether an answer of another node is a stream of events that the service there writes itself. */
export function isEvents(headers: readonly string[]): boolean {
  return headers[0] === EVENTS_HEADER;
}

/**
 * The last message of such a stream whose node was lost: `event: error` with `node_lost`. Compressed, the member has no
 * trailer, because only the lost node knew the checksum.
 */
export function lostEvent(headers: readonly string[]): Buffer {
  const body = errorBody(new AppError("node_lost"), headerOf(headers, "x-request-id") ?? "");
  const text = Buffer.from(`event: error\ndata: ${body}\n\n`);
  return headerOf(headers, "content-encoding") === "gzip" ? gzipBlocks(text) : text;
}
