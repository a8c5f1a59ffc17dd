import { ChunkedBody } from "./chunked-body.ts";
import { BadResponse, parseFields } from "./fields.ts";

/** The head of a response. */
export type ResponseHead = {
  readonly status: number;
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[];
  /** The body's bytes; null if only its end tells. */
  readonly length: number | null;
};

/** Gets a response as it arrives. None of these may throw. */
export type ResponseEvents = {
  /** `100 Continue`. */
  onContinue(): void;
  /** `101 Switching Protocols`, with the bytes after it: the connection is no longer HTTP. Only if it was requested. */
  onUpgrade?(head: ResponseHead, rest: Buffer): void;
  onHead(head: ResponseHead): void;
  onBody(bytes: Buffer): void;
  /** Once, at the end. `isReusable`: the connection may carry another exchange. */
  onEnd(trailers: readonly string[], isReusable: boolean): void;
};

const HEAD_END = Buffer.from("\r\n\r\n");
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
/** Twice a request's maximum: servers send more headers than callers. */
export const MAX_RESPONSE_HEAD_BYTES = 32 * 1024;
/** Responses such as `103 Early Hints`, before the real one. */
const MAX_INTERIM = 16;

/**
 * Reads one HTTP/1 response, strictly, because readers who disagree about its end could mix up answers. Holds no more than
 * a head. head → body → done. Throws `BadResponse`, after which nothing may be fed to it.
 */
export class ResponseParser {
  readonly #events: ResponseEvents;
  readonly #isBodiless: boolean;
  readonly #mayUpgrade: boolean;
  readonly #maxHeadBytes: number;
  #state: "head" | "counted" | "chunked" | "open" | "done" = "head";
  /** The beginning of a head that has not come whole. */
  #held: Buffer | null = null;
  #interim = 0;
  #leftBytes = 0;
  #chunks: ChunkedBody | null = null;
  #mayReuse = false;
  #upgrade: ResponseHead | null = null;

  /** `method` is the request's; `mayUpgrade`: it asks for another protocol. */
  constructor(
    method: string,
    events: ResponseEvents,
    mayUpgrade = false,
    maxHeadBytes: number = MAX_RESPONSE_HEAD_BYTES,
  ) {
    this.#mayUpgrade = mayUpgrade;
    this.#maxHeadBytes = maxHeadBytes;
    this.#events = events;
    this.#isBodiless = method === "HEAD";
  }

  get isDone(): boolean {
    return this.#state === "done";
  }

  /** Whether all chunks so far are whole. */
  get isBetweenChunks(): boolean {
    return this.#state === "chunked" && this.#chunks?.isBetweenChunks === true;
  }

  feed(data: Buffer): void {
    let rest = data;
    while (this.#state === "head") {
      const next = this.#takeHead(rest);
      if (next === null) return;
      rest = next;
    }
    if (this.#upgrade) {
      this.#events.onUpgrade?.(this.#upgrade, rest);
      return;
    }
    switch (this.#state) {
      case "counted":
        this.#takeCounted(rest);
        break;
      case "chunked":
        this.#takeChunks(rest);
        break;
      case "open":
        if (rest.length > 0) this.#events.onBody(rest);
        break;
      case "done":
        // More than the response announced belongs to no request.
        if (rest.length > 0) throw new BadResponse("it sent more than one response");
        break;
      default:
    }
  }

  /** The connection has ended. Throws if the response has not. */
  close(): void {
    if (this.#state === "done") return;
    if (this.#state !== "open") {
      const what = this.#state === "head" ? "it began to answer" : "its response was complete";
      throw new BadResponse(`it closed the connection before ${what}`);
    }
    this.#end([], false);
  }

  /** Takes a head; returns the bytes after it, or null if it is not whole yet. */
  #takeHead(data: Buffer): Buffer | null {
    const all = this.#held ? Buffer.concat([this.#held, data]) : data;
    // Three bytes of its end may have come before.
    const end = all.indexOf(HEAD_END, Math.max(0, (this.#held?.length ?? 0) - 3));
    if (end > this.#maxHeadBytes || (end === -1 && all.length > this.#maxHeadBytes))
      throw new BadResponse(`its headers are larger than ${this.#maxHeadBytes} bytes`);
    if (end === -1) {
      this.#held = all;
      return null;
    }
    this.#held = null;
    const [statusLine = "", ...lines] = all.toString("latin1", 0, end).split("\r\n");
    const line = STATUS_LINE.exec(statusLine);
    if (!line) throw new BadResponse("it did not answer with HTTP/1");
    const status = Number(line[2]);
    if (status === 101 && this.#mayUpgrade) {
      this.#upgrade = { status, headers: parseFields(lines).headers, length: null };
      this.#state = "done";
    } else if (status < 200) this.#takeInterim(status);
    else this.#begin(status, line[1] === "1", lines);
    return all.subarray(end + HEAD_END.length);
  }

  #takeInterim(status: number): void {
    this.#interim += 1;
    if (status === 101) throw new BadResponse("it switched to another protocol, which nobody asked for");
    if (this.#interim > MAX_INTERIM)
      throw new BadResponse(`it sent more than ${MAX_INTERIM} interim answers`);
    if (status === 100) this.#events.onContinue();
  }

  #begin(status: number, is11: boolean, lines: readonly string[]): void {
    const { headers, length, isChunked, isClosing, isKept } = parseFields(lines);
    this.#mayReuse = is11 ? !isClosing : isKept && !isClosing;
    const isBodiless = this.#isBodiless || status === 204 || status === 304;
    // No body follows 204; a caller that believed a length would read the next response as the body.
    this.#events.onHead({ status, headers, length: isChunked || status === 204 ? null : length });
    if (isBodiless || (length === 0 && !isChunked)) this.#end([], this.#mayReuse);
    else if (isChunked) {
      // Both at once is how responses are smuggled: the length is ignored, and the connection is not used again.
      if (length !== null) this.#mayReuse = false;
      this.#chunks = new ChunkedBody((bytes) => this.#events.onBody(bytes));
      this.#state = "chunked";
    } else if (length !== null) {
      this.#leftBytes = length;
      this.#state = "counted";
    } else this.#state = "open";
  }

  #takeCounted(data: Buffer): void {
    if (data.length === 0) return;
    const isAll = data.length >= this.#leftBytes;
    const body = data.length > this.#leftBytes ? data.subarray(0, this.#leftBytes) : data;
    this.#leftBytes -= body.length;
    this.#events.onBody(body);
    // More than it announced: the response is complete, and the rest is dropped.
    if (isAll) this.#end([], this.#mayReuse && body.length === data.length);
  }

  #takeChunks(data: Buffer): void {
    const ended = this.#chunks?.feed(data);
    if (ended) this.#end(ended.trailers, this.#mayReuse && ended.restBytes === 0);
  }

  #end(trailers: readonly string[], isReusable: boolean): void {
    this.#state = "done";
    this.#events.onEnd(trailers, isReusable);
  }
}
