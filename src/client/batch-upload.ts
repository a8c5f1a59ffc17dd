import { type CallOptions, newKey, queueQuery, type QueueOptions } from "./call.ts";
import { jsonOf, type Transport } from "./transport.ts";

export type BatchOptions = Pick<
  CallOptions,
  "function" | "webhook" | "idempotencyKey" | "fairnessKey" | "signal"
> &
  QueueOptions;

/** Where lines come from: a list, a generator, or anything else that can be looped over. */
export type Source<Line> = Iterable<Line> | AsyncIterable<Line>;

/** Up to this, lines are sent as one text, which can be sent again. */
const WHOLE_CHARS = 1024 * 1024;
/** What is sent at once, or what came within so long: the service takes a silent upload for a broken one. */
const PIECE_CHARS = 64 * 1024;
const PIECE_MS = 1_000;
/** With its key a batch is stored once, so sending it again is harmless. */
const RETRIES = 8;

/**
 * Uploads lines as a batch, and gives its record; null if there are no lines. Holds no more than a megabyte of them. What
 * was sent as one text, or can be read again from the beginning, survives a broken connection.
 */
export async function uploadLines<Line>(
  transport: Transport,
  app: string,
  source: Source<Line>,
  textOf: (line: Line) => string,
  options: BatchOptions,
): Promise<unknown> {
  const { signal, function: name = "run", webhook } = options;
  const body = new LinesBody(source, textOf);
  await body.begin();
  if (body.isEmpty) return null;
  const hook = typeof webhook === "string" ? { url: webhook, secret: null } : webhook;
  const query = new URLSearchParams([...queueQuery(options)]);
  if (hook) query.set("webhookEndpoint", hook.url);
  const path = `${encodeURIComponent(name)}/batches${query.size === 0 ? "" : `?${query.toString()}`}`;
  const headers = new Headers({ "content-type": "application/jsonl" });
  // Without a key the service ends a batch whose upload has broken off.
  const key = options.idempotencyKey ?? (body.isRepeatable ? newKey() : undefined);
  if (key !== undefined) headers.set("idempotency-key", key);
  if (hook?.secret) headers.set("x-webhook-secret", hook.secret);
  if (options.fairnessKey !== undefined) headers.set("x-millrace-fairness-key", options.fairnessKey);
  return await transport.retrying(body.isRepeatable ? RETRIES : 0, signal, async () => {
    const init = {
      method: "POST",
      headers,
      body: await body.next(),
      duplex: "half" as const,
      signal: signal ?? null,
    };
    try {
      return await jsonOf(await transport.fetch(app, path, init), signal);
    } catch (error) {
      throw body.failure ? body.failure.error : error;
    } finally {
      body.leave();
    }
  });
}

/** The body of an upload. */
class LinesBody<Line> {
  /** What the source itself threw: otherwise that would look like a broken connection. */
  failure: { readonly error: unknown } | null = null;
  readonly #source: Source<Line>;
  readonly #textOf: (line: Line) => string;
  #pieces: AsyncGenerator<string, void, void>;
  #head: string[] = [];
  #isWhole = false;

  constructor(source: Source<Line>, textOf: (line: Line) => string) {
    this.#source = source;
    this.#textOf = textOf;
    this.#pieces = piecesOf(source, textOf);
  }

  get isEmpty(): boolean {
    return this.#isWhole && this.#head.length === 0;
  }

  get isRepeatable(): boolean {
    return this.#isWhole || canBeReadAgain(this.#source);
  }

  /** Reads as many lines as are sent as one text. */
  async begin(): Promise<void> {
    for (let chars = 0; chars < WHOLE_CHARS; chars += this.#head.at(-1)?.length ?? 0) {
      const piece = await this.#pieces.next();
      if (piece.done) {
        this.#isWhole = true;
        return;
      }
      this.#head.push(piece.value);
    }
  }

  /** The body of the next try. */
  async next(): Promise<NonNullable<RequestInit["body"]>> {
    if (this.#isWhole) return this.#head.join("");
    const head = this.#head;
    if (head.length === 0) this.#pieces = piecesOf(this.#source, this.#textOf);
    this.#head = [];
    // Browsers send no streams by HTTP/1.1. A blob need not be in memory.
    if ("document" in globalThis || "importScripts" in globalThis) return await blobOf(head, this.#pieces);
    return this.#streamOf(head, this.#pieces);
  }

  /** The last body is not read any more. */
  leave(): void {
    if (!this.#isWhole) void this.#pieces.return().catch(() => undefined);
  }

  #streamOf(head: string[], pieces: AsyncGenerator<string, void, void>): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      try {
        const piece = head.shift() ?? (await pieces.next()).value;
        if (piece === undefined) controller.close();
        else controller.enqueue(encoder.encode(piece));
      } catch (error) {
        this.failure = { error };
        throw error;
      }
    };
    return new ReadableStream({ pull }, { highWaterMark: 0 });
  }
}

async function* piecesOf<Line>(
  source: Source<Line>,
  textOf: (line: Line) => string,
): AsyncGenerator<string, void, void> {
  let piece = "";
  let since = performance.now();
  for await (const line of source) {
    piece += `${textOf(line)}\n`;
    if (piece.length < PIECE_CHARS && performance.now() - since < PIECE_MS) continue;
    yield piece;
    piece = "";
    since = performance.now();
  }
  if (piece !== "") yield piece;
}

async function blobOf(head: readonly string[], pieces: AsyncIterable<string>): Promise<Blob> {
  const parts = head.map((piece) => new Blob([piece]));
  for await (const piece of pieces) parts.push(new Blob([piece]));
  return new Blob(parts);
}

/** A list begins anew with each loop, a generator does not. */
export function canBeReadAgain<Line>(source: Source<Line>): source is Iterable<Line> {
  return Symbol.iterator in source && (source[Symbol.iterator]() as unknown) !== source;
}
