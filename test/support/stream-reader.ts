import { connect, type Socket } from "node:net";
import { createGunzip, type Gunzip, gunzipSync } from "node:zlib";
import { createParser } from "eventsource-parser";
import { Condition } from "../../src/kit/concurrency.ts";
import { until } from "./until.ts";
import type { TestService } from "./service.ts";

/** A message as a parser that keeps to the specification gives it. */
export type Message = { readonly id: string | null; readonly event: string | null; readonly data: string };

export type StreamOptions = {
  readonly functionName?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly suffix?: string;
  readonly token?: string | null;
  readonly httpVersion?: "1.0" | "1.1";
  readonly method?: "GET" | "POST";
};

export type StreamTarget = StreamOptions & { readonly url: string; readonly body: string };

type Head = {
  readonly status: number;
  /** Names and values as they came, in order. */
  readonly fields: readonly (readonly [name: string, value: string])[];
};

type Framing = { kind: "chunked" } | { kind: "length"; left: number } | { kind: "to the end" };

/** Reads one streamed answer from a bare socket: what every byte of it says, and how it ends. */
export class StreamReader {
  readonly socket: Socket;
  readonly messages: Message[] = [];
  readonly comments: string[] = [];
  /** What it was told of the run's place in the queue: how often depends on the machine. */
  readonly places: string[] = [];
  head: Head | null = null;
  /** The body without chunk heads and encoding. */
  text = "";
  /** The bytes of the body without chunk heads, as they came. */
  bodyBytes = 0;
  /** The last chunk came, or all of the length: the answer is whole. */
  isWhole = false;
  isClosed = false;
  #waiting: Buffer = Buffer.alloc(0);
  #framing: Framing | null = null;
  #gunzip: Gunzip | null = null;
  readonly #pieces: Buffer[] = [];
  /** Pieces that still have to be unpacked. */
  #packed = 0;
  /** Notified for every piece of the answer, and at its end. */
  readonly #news = new Condition();
  readonly #decoder = new TextDecoder();
  readonly #parser = createParser({
    onEvent: ({ id = null, event = null, data }) => {
      if (id === null && event === "queue") this.places.push(data);
      else this.messages.push({ id, event, data });
    },
    onComment: (text) => this.comments.push(text),
  });

  constructor({ url, body, headers = {}, token = null, httpVersion = "1.1", method = "POST" }: StreamTarget) {
    const { hostname, port, pathname, search } = new URL(url);
    this.socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.socket.on("data", (data: Buffer) => {
      this.#take(data);
      this.#news.notify();
    });
    this.socket.on("error", () => {}); // The close that follows is what tests look at.
    this.socket.on("close", () => {
      if (this.#framing?.kind === "to the end") this.isWhole = true;
      this.isClosed = true;
      this.#news.notify();
    });
    const lines = [
      `${method} ${pathname}${search} HTTP/${httpVersion}`,
      "Host: stream",
      "Content-Type: application/json",
    ];
    if (token !== null) lines.push(`Authorization: Bearer ${token}`);
    for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
    lines.push(`Content-Length: ${Buffer.byteLength(body)}`, "", body);
    this.socket.write(lines.join("\r\n"));
  }

  /** The values of a header, however its name is written. */
  header(name: string): string | null {
    const found = this.head?.fields.filter(([field]) => field.toLowerCase() === name) ?? [];
    return found.length === 0 ? null : found.map(([, value]) => value).join(", ");
  }

  get runId(): string {
    return this.header("x-request-id") ?? "";
  }

  /** Whether the body is a gzip member that lacks nothing: a decoder may throw away one that does. */
  get hasMember(): boolean {
    if (!this.#gunzip) return false;
    try {
      return gunzipSync(Buffer.concat(this.#pieces)).toString() === this.text;
    } catch {
      return false;
    }
  }

  get data(): string[] {
    return this.messages.map(({ data }) => data);
  }

  /** The numbers of its messages, those of named events left out. */
  get numbers(): number[] {
    return this.messages.filter(({ event }) => event === null).map(({ id }) => Number(id));
  }

  /** The `end` that closes the events of a run: its number and the run's record. */
  // oxlint-disable-next-line no-explicit-any
  get end(): { readonly id: number; readonly record: any } | null {
    const last = this.messages.at(-1);
    return last?.event === "end" ? { id: Number(last.id), record: JSON.parse(last.data) } : null;
  }

  async hasHead(): Promise<Head> {
    await until("the head of the answer", () => this.head !== null, this.#news);
    return this.head as Head;
  }

  async hasMessages(count: number): Promise<void> {
    await until(`${count} messages`, () => this.messages.length >= count, this.#news);
  }

  async hasComments(count: number): Promise<void> {
    await until(`${count} comments`, () => this.comments.length >= count, this.#news);
  }

  /** Waits for the end: a whole answer, or one that breaks off. */
  async ended(): Promise<this> {
    const isOver = (): boolean => (this.isClosed || this.isWhole) && this.#packed === 0;
    await until("the end of the answer", isOver, this.#news);
    return this;
  }

  leave(): void {
    this.socket.destroy();
  }

  /** Away without a word, as a caller whose machine went down and came up again. */
  vanish(): void {
    this.socket.resetAndDestroy();
  }

  #take(data: Buffer): void {
    this.#waiting = this.#waiting.length === 0 ? data : Buffer.concat([this.#waiting, data]);
    if (!this.#framing) this.#readHead();
    if (!this.#framing) return;
    if (this.#framing.kind === "chunked") this.#readChunks();
    else this.#readRest(this.#framing);
  }

  #readHead(): void {
    const end = this.#waiting.indexOf("\r\n\r\n");
    if (end === -1) return;
    const [first = "", ...lines] = this.#waiting.subarray(0, end).toString("latin1").split("\r\n");
    const fields = lines.map((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon), line.slice(colon + 2)] as const;
    });
    this.#waiting = this.#waiting.subarray(end + 4);
    this.head = { status: Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]), fields };
    const length = this.header("content-length");
    if (this.header("transfer-encoding") === "chunked") this.#framing = { kind: "chunked" };
    else if (length !== null) this.#framing = { kind: "length", left: Number(length) };
    else if (this.head.status === 204) this.#framing = { kind: "length", left: 0 };
    else this.#framing = { kind: "to the end" };
    if (this.header("content-encoding") === "gzip") this.#gunzip = this.#unpack();
  }

  #unpack(): Gunzip {
    const gunzip = createGunzip();
    gunzip.on("data", (data: Buffer) => this.#feed(data));
    return gunzip;
  }

  #readChunks(): void {
    for (;;) {
      const end = this.#waiting.indexOf("\r\n");
      if (end === -1) return;
      const bytes = Number.parseInt(this.#waiting.subarray(0, end).toString("latin1"), 16);
      if (this.#waiting.length < end + 2 + bytes + 2) return;
      const chunk = this.#waiting.subarray(end + 2, end + 2 + bytes);
      this.#waiting = this.#waiting.subarray(end + 2 + bytes + 2);
      if (bytes === 0) this.isWhole = true;
      else this.#decode(chunk);
    }
  }

  #readRest(framing: Exclude<Framing, { kind: "chunked" }>): void {
    if (framing.kind === "length") {
      framing.left -= this.#waiting.length;
      this.isWhole = framing.left <= 0;
    }
    this.#decode(this.#waiting);
    this.#waiting = Buffer.alloc(0);
  }

  #decode(bytes: Buffer): void {
    this.bodyBytes += bytes.length;
    if (!this.#gunzip) {
      this.#feed(bytes);
      return;
    }
    this.#pieces.push(Buffer.from(bytes));
    this.#packed += 1;
    this.#gunzip.write(bytes, () => {
      this.#packed -= 1;
      this.#news.notify();
    });
  }

  #feed(bytes: Buffer): void {
    const text = this.#decoder.decode(bytes, { stream: true });
    this.text += text;
    if (this.header("content-type")?.startsWith("text/event-stream")) this.#parser.feed(text);
  }
}

/** Calls a function of a test's service and reads what streams back. */
export function openStream(
  service: TestService,
  app: string,
  body: object = {},
  options: StreamOptions = {},
): StreamReader {
  const url = service.url(app, options.functionName) + (options.suffix ?? "");
  return new StreamReader({
    token: service.service.owner.token,
    ...options,
    url,
    body: JSON.stringify(body),
  });
}

/** Reads the events of a run, those after the `after`th. */
export function openEvents(
  service: TestService,
  app: string,
  runId: string,
  after: number | null = null,
  options: StreamOptions = {},
): StreamReader {
  const resume = after === null ? {} : { "last-event-id": String(after) };
  return new StreamReader({
    token: service.service.owner.token,
    method: "GET",
    ...options,
    headers: { ...resume, ...options.headers },
    url: service.url(app, `runs/${runId}/events`),
    body: "",
  });
}
