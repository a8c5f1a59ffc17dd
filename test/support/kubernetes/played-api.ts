import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import type { ClusterAccess } from "../../../src/engines/kubernetes/cluster-access.ts";
import { MAIL_CERTIFICATE, MAIL_KEY } from "../mail-certificate.ts";
import { until } from "../until.ts";

/** A request that was made, with what is needed to answer it. */
export type Asked = {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly token: string | undefined;
  readonly contentType: string | undefined;
  readonly body: unknown;
  /** Answers, and ends the answer. */
  answer(status: number, body: object): void;
  /** Sends an event of a watch. */
  tell(type: string, object: object): void;
  /** Sends a part of an answer, which is no end of it. */
  drip(text: string): void;
  /** Cuts the connection. */
  cut(): void;
  /** Ends the answer in an orderly way. */
  end(): void;
};

/** An API server that answers as a test says: for what a real one does only in months, or at no certain moment. */
export class PlayedApi {
  readonly access: ClusterAccess;
  readonly #answers: (asked: Asked) => boolean;
  readonly #asked: Asked[] = [];
  readonly #news = new Condition();

  private constructor(port: number, answers: (asked: Asked) => boolean) {
    this.#answers = answers;
    this.access = {
      server: new URL(`https://127.0.0.1:${port}`),
      tls: { ca: MAIL_CERTIFICATE, rejectUnauthorized: true },
      token: () => "t0ken",
      namespace: "apps",
    };
  }

  /** Requests that `answers` takes are not given to the test. */
  static async open(answers: (asked: Asked) => boolean = () => false): Promise<PlayedApi> {
    const server = createServer({ key: MAIL_KEY, cert: MAIL_CERTIFICATE });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const played = new PlayedApi(port, answers);
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      void played.#take(request, response);
    });
    onTestFinished(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return played;
  }

  /** The next request that nobody has taken, waited for. */
  async next(): Promise<Asked> {
    await until("a request to the played API", () => this.#asked.length > 0, this.#news);
    return this.#asked.shift()!;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
    const text = Buffer.concat(pieces).toString("utf8");
    const url = new URL(request.url ?? "/", "https://played");
    const asked: Asked = {
      method: request.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      token: request.headers.authorization,
      contentType: request.headers["content-type"],
      body: text === "" ? null : (JSON.parse(text) as unknown),
      answer: (status, body) => response.writeHead(status).end(JSON.stringify(body)),
      tell: (type, object) => response.write(`${JSON.stringify({ type, object })}\n`),
      drip: (part) => response.write(part),
      cut: () => request.socket.destroy(),
      end: () => response.end(),
    };
    if (this.#answers(asked)) return;
    this.#asked.push(asked);
    this.#news.notify();
  }
}
