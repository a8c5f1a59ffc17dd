import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";
import { Condition } from "../../src/kit/concurrency.ts";
import { until } from "./until.ts";

/** A request as the target received it. */
export type Received = {
  readonly path: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Of this process's steady clock. */
  readonly at: number;
};

/** How a target answers. */
export type Behaviour = (response: ServerResponse, received: Received) => void;

/** Ways to answer that a webhook meets sooner or later. */
export const MODES = {
  ok: (response) => response.writeHead(204).end(),
  500: (response) => response.writeHead(500).end("broken"),
  302: (response) => response.writeHead(302, { location: "/elsewhere" }).end(),
  410: (response) => response.writeHead(410).end(),
  429: (response) => response.writeHead(429, { "retry-after": "120" }).end(),
  hang: () => {},
  drip: (response) => {
    response.writeHead(200, { "content-type": "text/plain" });
    const timer = setInterval(() => response.write(".", () => response.emit("drip")), 20);
    response.once("close", () => clearInterval(timer));
  },
  endless: (response) => {
    response.writeHead(200);
    const piece = Buffer.alloc(16 * 1024);
    const more = (): void => {
      while (!response.destroyed && response.write(piece)) response.emit("sent", piece.length);
    };
    response.on("drain", more);
    more();
  },
  reset: (response) => response.socket?.resetAndDestroy(),
} satisfies Record<string, Behaviour>;

/** A real HTTP server on loopback that keeps what it receives. */
export class WebhookTarget {
  readonly received: Received[] = [];
  /** How the next requests are answered. */
  behave: Behaviour = MODES.ok;
  /** Pieces of answers that drip: with the third on its way the first has been read. */
  drips = 0;
  /** Connections, with or without a request. */
  connections = 0;
  /** Notified for every request. */
  readonly news = new Condition();
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("error", () => {});
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const received = {
        path: request.url ?? "",
        method: request.method ?? "",
        headers: request.headers,
        body: Buffer.concat(pieces),
        at: performance.now(),
      };
      this.received.push(received);
      response.on("drip", () => (this.drips += 1));
      this.news.notify();
      this.behave(response, received);
    });
  });

  static async open(behave: Behaviour = MODES.ok): Promise<WebhookTarget> {
    const target = new WebhookTarget();
    target.behave = behave;
    target.#server.on("connection", (socket) => {
      target.connections += 1;
      target.#sockets.add(socket);
      socket.once("close", () => target.#sockets.delete(socket));
    });
    await target.up();
    onTestFinished(() => target.down());
    return target;
  }

  /** Its address; it stays the same when the target goes down and comes back. */
  url = "";

  /** Listens, where it did before if it did. */
  async up(): Promise<void> {
    const port = this.url === "" ? 0 : Number(new URL(this.url).port);
    await new Promise<void>((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Refuses connections, and breaks those that are open. */
  async down(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Waits until so many requests have come. */
  async has(count: number): Promise<void> {
    await until(`${count} requests at the target`, () => this.received.length >= count, this.news);
  }
}
