import { connect, type Socket } from "node:net";
import { Condition } from "../../src/kit/concurrency.ts";
import { until } from "./until.ts";

/** An answer as it came over the socket. */
export type RawAnswer = {
  readonly status: number;
  /** Lower-case names; of a name that stands twice, both values joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** A connection whose bytes the test writes itself: what no HTTP client would send. */
export class RawConnection {
  readonly socket: Socket;
  readonly answers: RawAnswer[] = [];
  isClosed = false;
  /** Set for the answer to HEAD: its length is told and its body does not come. */
  isBodyless = false;
  #bytes = Buffer.alloc(0);
  readonly #news = new Condition();

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (data: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, data]);
      for (let answer = this.#take(); answer; answer = this.#take()) this.answers.push(answer);
      this.#news.notify();
    });
    // A reset is one of the ways to refuse a connection; the close that follows is what tests look at.
    socket.on("error", () => {});
    socket.on("close", () => {
      this.isClosed = true;
      this.#news.notify();
    });
  }

  /** `localAddress` is whom the other side sees: all of 127.0.0.0/8 is this machine. */
  static async open(url: string, localAddress?: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const from = localAddress === undefined ? {} : { localAddress };
    const socket = connect({ host: hostname, port: Number(port), noDelay: true, ...from });
    const connection = new RawConnection(socket);
    await new Promise((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return connection;
  }

  /** What has come and is no complete answer. */
  get rest(): string {
    return this.#bytes.toString("latin1");
  }

  send(bytes: string | Buffer): void {
    this.socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  /** Waits for the answer of that place, counted from 0. */
  async answer(place = 0): Promise<RawAnswer> {
    await this.#until(`answer ${place}`, () => this.answers.length > place);
    return this.answers[place] as RawAnswer;
  }

  /** Waits until the other side has closed. */
  async closed(): Promise<void> {
    await this.#until("the end of the connection", () => this.isClosed);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed();
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    await until(what, () => holds() || this.isClosed, this.#news);
    if (!holds()) throw new Error(`${what} did not come (${this.answers.length} answers, rest ${this.rest})`);
  }

  #take(): RawAnswer | null {
    const end = this.#bytes.indexOf("\r\n\r\n");
    if (end === -1) return null;
    const [first = "", ...lines] = this.#bytes.subarray(0, end).toString("latin1").split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1]);
    const headers: Record<string, string> = {};
    for (const line of lines) {
      const colon = line.indexOf(":");
      const name = line.slice(0, colon).toLowerCase();
      const value = line.slice(colon + 1).trim();
      headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
    }
    const bytes =
      status < 200 || status === 204 || this.isBodyless ? 0 : Number(headers["content-length"] ?? 0);
    if (this.#bytes.length < end + 4 + bytes) return null;
    const body = this.#bytes.subarray(end + 4, end + 4 + bytes).toString();
    this.#bytes = this.#bytes.subarray(end + 4 + bytes);
    return { status, headers, body };
  }
}

/** The text of a request: the line, the headers in order, the body as it is. */
export function rawRequest(line: string, headers: readonly string[], body = ""): string {
  return [line, ...headers, "", body].join("\r\n");
}
