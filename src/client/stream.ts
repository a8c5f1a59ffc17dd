import { ConnectionLost, errorIn, errorOf, foreignError, isTransient, NotFound } from "./errors.ts";
import type { MillraceError } from "./errors.ts";
import { type Message, SseParser } from "./sse.ts";
import { type Answer, jsonOf, lost, type Transport } from "./transport.ts";

/**
 * How far a reader of a stream has come, so that it can resume.
 *
 * `…/events` numbers what the function yielded. A live stream has no such numbers, and one yield may be several messages
 * (text that is SSE already), of which `…/events` numbers the last. So a position is a number and the messages received
 * since; a reader resumes after the number and skips those.
 */
export class Position {
  /** The last yield that was received whole; 0 for none. */
  event = 0;
  /** Messages received after that one. */
  messages = 0;
  #toSkip = 0;

  /** `…/events` is read from here on. */
  resume(): void {
    this.#toSkip = this.messages;
  }

  /** Takes a message of `…/events` with its number, if it has one; returns whether it is new. */
  take(event: number | null): boolean {
    const isNew = this.#toSkip === 0;
    if (!isNew) this.#toSkip -= 1;
    if (event !== null) {
      this.event = event;
      this.messages = this.#toSkip;
    } else if (isNew) this.messages += 1;
    return isNew;
  }
}

export type ReadOptions = {
  /** Aborting it leaves the stream: the run that the stream began is cancelled. */
  readonly signal?: AbortSignal;
  /** How often in a row a broken stream is resumed without any progress. */
  readonly reattachTries?: number;
  /** A connection that is silent for longer counts as broken; the service sends a heartbeat every 15 s. */
  readonly idleSeconds?: number;
};

/** An owner's run is cancelled when it leaves the stream. */
type StreamOptions = ReadOptions & { readonly isOwner: boolean };

/** The end of a run, as `…/events` tells it. */
type End = {
  readonly id: string;
  readonly status: string;
  readonly statusCode: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
};

/**
 * The chunks that a function yields, as texts, in order, each once. A connection that breaks is resumed where it broke.
 * The loop ends with the run; it throws the error that the run ended with, or `ConnectionLost`.
 */
export class RunStream implements AsyncIterable<string> {
  /** Known from the first message on. */
  runId: string | null = null;
  readonly #transport: Transport;
  readonly #app: string;
  readonly #open: (signal: AbortSignal) => Promise<Answer>;
  readonly #signal: AbortSignal | undefined;
  readonly #tries: number;
  readonly #idleMs: number;
  readonly #isOwner: boolean;
  readonly #position = new Position();
  #connection = new AbortController();
  #isBegun = false;
  #isOver = false;

  constructor(
    transport: Transport,
    app: string,
    open: (signal: AbortSignal) => Promise<Answer>,
    { signal, reattachTries = 10, idleSeconds = 45, isOwner }: StreamOptions,
  ) {
    this.#transport = transport;
    this.#app = app;
    this.#open = open;
    this.#signal = signal;
    this.#tries = reattachTries;
    this.#idleMs = idleSeconds * 1000;
    this.#isOwner = isOwner;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, void> {
    for await (const { data } of this.messages()) yield data;
  }

  /** The same, each text read as JSON. */
  async *json<T = unknown>(): AsyncGenerator<T, void, void> {
    for await (const { data } of this.messages()) yield JSON.parse(data) as T;
  }

  /** The same with the names that the app gave its events. */
  async *messages(): AsyncGenerator<Pick<Message, "event" | "data">, void, void> {
    if (this.#isBegun) throw new Error("A stream can be read only once.");
    this.#isBegun = true;
    const signal = this.#signal;
    const leave = (): void => this.#connection.abort(signal?.reason);
    try {
      const answer = await this.#begin();
      signal?.addEventListener("abort", leave);
      signal?.throwIfAborted();
      for await (const batch of this.#batches(answer)) yield* batch;
    } finally {
      signal?.removeEventListener("abort", leave);
      await this.#leave();
    }
  }

  /** The run to cancel is known only from the head: after an abort before it, the run is cancelled once it comes. */
  async #begin(): Promise<Answer> {
    const signal = this.#signal;
    signal?.throwIfAborted();
    const opening = this.#open(this.#connection.signal).then((answer) => {
      this.runId = answer.kind === "result" ? answer.result.runId : answer.runId;
      return answer;
    });
    if (!signal) return await opening;
    return await new Promise<Answer>((resolve, reject) => {
      const onAbort = (): void => {
        void opening.then(() => this.#leave()).catch(() => undefined);
        reject(signal.reason as Error);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      void opening.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
    });
  }

  async #leave(): Promise<void> {
    if (this.runId === null) return;
    this.#connection.abort();
    if (this.#isOver || !this.#isOwner || !this.#transport.hasToken) return;
    this.#isOver = true;
    await this.#transport.cancel(this.#app, this.runId).catch(() => undefined);
  }

  async *#batches(answer: Answer): AsyncGenerator<Message[], void, void> {
    if (answer.kind === "result") {
      this.#isOver = true;
      yield [{ id: null, event: null, data: JSON.stringify(answer.result.result) }];
      return;
    }
    if (answer.kind === "stream") {
      const broken = yield* this.#live(answer.response);
      const isFinal = !this.#transport.hasToken || this.runId === null;
      if (broken && isFinal) throw broken;
      if (!broken && isFinal) this.#isOver = true;
      const rest = broken ? "more" : isFinal ? "none" : await this.#rest();
      if (rest === "none") return;
      if (rest === "unknown") {
        yield* this.#searched();
        return;
      }
    }
    yield* this.#attached();
  }

  /** The answer to the call itself; returns how it broke off, null if it came to its end. */
  async *#live(response: Response): AsyncGenerator<Message[], ConnectionLost | null, void> {
    // An app may forward such a message of another service: the service's own is the last one.
    let last: Message | null = null;
    let broken: ConnectionLost | null = null;
    try {
      for await (const batch of this.#read(response)) {
        if (last) batch.unshift(last);
        last = this.#errorIn(batch.at(-1)) ? (batch.pop() ?? null) : null;
        this.#position.messages += batch.length;
        if (batch.length > 0) yield batch;
      }
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      broken = error;
    }
    const error = this.#errorIn(last);
    if (!error) return broken;
    // The run may continue on another node, or have ended.
    if (error.code === "node_lost") return this.#lost("connection_lost", error.message, error);
    this.#isOver = true;
    throw error;
  }

  /** The error in a message of the service: of this run, or of the request with that id. */
  #errorIn(message: Message | null | undefined, requestId = this.runId): MillraceError | null {
    const error = message?.event === "error" ? errorIn(parsed(message.data), null) : null;
    return error?.requestId === requestId ? error : null;
  }

  /**
   * Whether messages are missing after an answer ended: a proxy may turn a broken connection into a proper end.
   * Unknown where a yield was several messages: their number may be larger than that of the last yield.
   */
  async #rest(): Promise<"none" | "more" | "unknown"> {
    const { messages } = this.#position;
    const next = await this.#transport.retrying(this.#tries, this.#signal, async () => {
      const response = await this.#attach(messages);
      if (response.status === 204) return null;
      for await (const batch of this.#read(response)) {
        // If nothing is stored, only the end can be asked for.
        const message = batch.find((one) => truncationIn(one)?.lastEvent !== null && !isNote(one));
        if (!message) continue;
        const error = this.#failureIn(message, response);
        if (error) throw error;
        return truncationIn(message) ? null : message;
      }
      throw this.#lost("connection_lost", "The event stream broke off.");
    });
    const end = next && this.#endIn(next);
    if (end) this.#finish(end);
    if (!next) return "unknown";
    return end ? "none" : "more";
  }

  /** The missing messages, found by reading from the beginning. */
  async *#searched(): AsyncGenerator<Message[], void, void> {
    let isFound = false;
    try {
      for await (const batch of this.#attached()) {
        isFound = true;
        yield batch;
      }
    } catch (error) {
      const isGone = error instanceof ConnectionLost && error.code === "stream_lost";
      // The beginning is no longer stored, so the answer counts as whole.
      if (isFound || !isGone) throw error;
      this.#isOver = true;
    }
  }

  /** The rest, from the current position, however often the connection breaks. */
  async *#attached(): AsyncGenerator<Message[], void, void> {
    let failures = 0;
    for (;;) {
      const progress = this.#progress;
      let broken = this.#lost("connection_lost", "The event stream broke off.");
      try {
        const response = await this.#attach(this.#position.event);
        // There is no end message: the rest is not stored.
        if (response.status === 204) throw this.#notKept();
        this.#position.resume();
        for await (const batch of this.#read(response)) {
          const { fresh, end, error } = this.#sift(batch, response);
          if (fresh.length > 0) yield fresh;
          if (end) return this.#finish(end);
          if (error) throw error;
        }
      } catch (error) {
        if (this.#isOver || !isTransient(error)) throw error;
        broken = error;
      }
      failures = this.#progress === progress ? failures + 1 : 1;
      if (failures > this.#tries) throw broken;
      await this.#transport.pause(failures, broken, this.#signal);
    }
  }

  get #progress(): string {
    return `${this.#position.event}+${this.#position.messages}`;
  }

  /** The messages that are new, up to the end, or to an error in its place. */
  #sift(batch: readonly Message[], response: Response) {
    const fresh: Message[] = [];
    for (const message of batch) {
      if (isNote(message)) continue;
      const end = this.#endIn(message);
      const error = truncationIn(message) ? this.#notKept() : this.#failureIn(message, response);
      if (end || error) return { fresh, end, error };
      if (this.#position.take(message.id === null ? null : Number(message.id))) fresh.push(message);
    }
    return { fresh, end: null, error: null };
  }

  /** The error with which the service ends an answer of `…/events`, if the message is one. */
  #failureIn(message: Message, response: Response): MillraceError | null {
    const error = this.#errorIn(message, response.headers.get("x-request-id"));
    return error?.code === "node_lost" ? this.#lost("connection_lost", error.message, error) : error;
  }

  /** The end of this run, if the message is one. */
  #endIn({ event, data }: Message): End | null {
    const end = event === "end" ? (parsed(data) as End | null | undefined) : null;
    return end && end.id === this.runId ? end : null;
  }

  /** Throws the error that the run ended with, if any. */
  #finish({ id: requestId, status: state, statusCode: status, error }: End): void {
    this.#isOver = true;
    if (state === "cancelled") {
      throw errorOf({ code: "cancelled", message: "The run was cancelled.", status: 499, requestId });
    }
    if (error) throw errorOf({ ...error, status, requestId });
  }

  async #attach(after: number): Promise<Response> {
    const signal = this.#signal;
    signal?.throwIfAborted();
    this.#connection.abort();
    this.#connection = new AbortController();
    const idle = setTimeout(() => this.#connection.abort(), this.#idleMs);
    try {
      const response = await this.#transport.send(
        this.#app,
        `runs/${encodeURIComponent(this.runId ?? "")}/events`,
        {
          headers: { accept: "text/event-stream", "last-event-id": after > 0 ? String(after) : null },
          signal: this.#connection.signal,
        },
      );
      if (response.status === 200 || response.status === 204) return response;
      throw foreignError(response, JSON.stringify(await jsonOf(response)));
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof NotFound) throw this.#lost("stream_lost", "The service has lost the run.", error);
      throw lost(error, signal, this.runId);
    } finally {
      clearTimeout(idle);
    }
  }

  /** The messages of one connection as they come; returns only at its proper end. */
  async *#read(response: Response): AsyncGenerator<Message[], void, void> {
    const connection = this.#connection;
    const parser = new SseParser();
    const reader = response.body?.getReader();
    try {
      for (;;) {
        const idle = setTimeout(() => connection.abort(), this.#idleMs);
        const read = await reader?.read().finally(() => clearTimeout(idle));
        if (!read || read.done) return;
        const messages = parser.feed(read.value);
        if (messages.length > 0) yield messages;
      }
    } catch (error) {
      throw lost(error, this.#signal, this.runId);
    } finally {
      // Later bytes are not needed.
      connection.abort();
    }
  }

  #notKept(): ConnectionLost {
    return this.#lost("stream_lost", "The rest of the stream is no longer stored.");
  }

  #lost(code: string, message: string, cause?: unknown): ConnectionLost {
    return new ConnectionLost({ code, message, requestId: this.runId, cause });
  }
}

/** If chunks are no longer stored here: after which event nothing is stored; else null. */
function truncationIn({ id, event, data }: Message): { readonly lastEvent: number | null } | null {
  const body = event === "truncated" && id === null ? parsed(data) : undefined;
  if (typeof body !== "object" || body === null || !("firstEvent" in body)) return null;
  return { lastEvent: "lastEvent" in body && typeof body.lastEvent === "number" ? body.lastEvent : null };
}

/** Whether the service says here where the run is in the queue, or how far it is. Chunks have a number, whatever their name. */
function isNote({ id, event }: Message): boolean {
  return (event === "progress" || event === "queue") && id === null;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
