import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { BACKLOG, connectionKey, UnauthenticatedConnections } from "../kit/listener.ts";
import type { Log } from "../kit/log.ts";
import { AppError } from "../model/errors.ts";
import { type Identity, nodeOf } from "./authority.ts";
import { type Hop, takeHop } from "./forward/hop-head.ts";
import { readWhole } from "./forward/forwarded-request.ts";

/** A request that another node, `from`, has forwarded. */
export type FromPeer = Hop & { readonly from: string };

/** The handlers of requests from other nodes. */
export type PeerRoutes = {
  api(request: IncomingMessage, response: ServerResponse, from: FromPeer): void;
  apiUpgrade(request: IncomingMessage, socket: Socket, first: Buffer, from: FromPeer): void;
  management(request: IncomingMessage, response: ServerResponse, from: FromPeer): void;
  managementUpgrade(request: IncomingMessage, socket: Socket, first: Buffer, from: FromPeer): void;
  /** Messages between nodes, a path and a JSON value. Throws `AppError` for unknown ones. */
  own(from: string, path: string, value: unknown): Promise<unknown>;
};

/** `port`: 0 for any free port. */
type PeerListenerOptions = {
  readonly identity: Identity;
  readonly host: string;
  readonly port: number;
  readonly log: Log;
};

/** A caller's limit plus what a node adds. */
const MAX_HEADER_BYTES = 20 * 1024;
const HANDSHAKE_MS = 5_000;
/** Limit of connections that are not authenticated yet. */
const MAX_STRANGERS = 256;
const KEEP_ALIVE_MS = 5_000;
const MAX_OWN_BYTES = 1024 * 1024;

/** The listener for other nodes. Idle connections are never closed: a request could be on its way. */
export class PeerListener {
  readonly #server: Server;
  readonly #log: Log;
  readonly #strangers = new UnauthenticatedConnections<string>(MAX_STRANGERS);
  readonly #nodes = new Map<Socket, string>();
  #routes: PeerRoutes | null = null;
  #isClosing = false;

  private constructor({ identity, log }: PeerListenerOptions) {
    this.#log = log;
    this.#server = createServer({
      key: identity.key,
      cert: identity.certificate,
      ca: identity.authority,
      minVersion: "TLSv1.3",
      requestCert: true,
      rejectUnauthorized: true,
      handshakeTimeout: HANDSHAKE_MS,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      // The forwarding node enforces these limits.
      requestTimeout: 0,
      keepAliveTimeout: 0,
      requireHostHeader: false,
    });
    this.#server.maxHeadersCount = 0;
    this.#server.on("connection", (socket: Socket) => this.#strangers.add(connectionKey(socket), socket));
    this.#server.on("secureConnection", (socket: TLSSocket) => this.#know(socket));
    this.#server.on("tlsClientError", (_, socket: TLSSocket) => socket.destroy());
    this.#server.on("clientError", (_, socket) => socket.destroy());
    // The forwarding node has refused unknown expectations of HTTP/1.1; in HTTP/1.0 the header has no meaning.
    for (const event of ["request", "checkContinue", "checkExpectation"])
      this.#server.on(event, (request: IncomingMessage, response: ServerResponse) =>
        this.#receive(request, response),
      );
    this.#server.on("upgrade", (request: IncomingMessage, socket: Socket, first: Buffer) =>
      this.#upgrade(request, socket, first),
    );
  }

  static async listen(options: PeerListenerOptions): Promise<PeerListener> {
    const listener = new PeerListener(options);
    await new Promise<void>((resolve, reject) => {
      listener.#server.once("error", (error) => reject(explained(error)));
      listener.#server.listen({ host: options.host, port: options.port, backlog: BACKLOG }, resolve);
    });
    return listener;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Sets the handlers; before, requests are not answered. */
  route(routes: PeerRoutes): void {
    this.#routes = routes;
  }

  /** Every further answer closes its connection, so that no request arrives on one that is about to end. */
  startClosing(): void {
    this.#isClosing = true;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#strangers.close();
    for (const socket of this.#nodes.keys()) socket.destroy();
    await closed;
  }

  /** Runs before any request on the connection, because Node's own handler reads later. */
  #know(socket: TLSSocket): void {
    this.#strangers.release(connectionKey(socket));
    const nodeId = socket.authorized ? nodeOf(socket.getPeerCertificate()) : null;
    if (nodeId === null) socket.destroy();
    else {
      this.#nodes.set(socket, nodeId);
      socket.once("close", () => this.#nodes.delete(socket));
    }
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const from = this.#read(request);
    const routes = this.#routes;
    if (this.#isClosing) response.shouldKeepAlive = false;
    if (!from || !routes) request.socket.destroy();
    else if (from.purpose === "api") routes.api(request, response, from);
    else if (from.purpose === "management") routes.management(request, response, from);
    else void this.#answer(request, response, from.from, routes);
  }

  #upgrade(request: IncomingMessage, socket: Socket, first: Buffer): void {
    const from = this.#read(request);
    const routes = this.#routes;
    if (!from || !routes || from.purpose === "node") socket.destroy();
    else if (from.purpose === "api") routes.apiUpgrade(request, socket, first, from);
    else routes.managementUpgrade(request, socket, first, from);
  }

  #read(request: IncomingMessage): FromPeer | null {
    const from = this.#nodes.get(request.socket);
    const hop = takeHop(request);
    return from !== undefined && hop ? { ...hop, from } : null;
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    from: string,
    routes: PeerRoutes,
  ): Promise<void> {
    const path = request.url ?? "/";
    let status = 200;
    let answer: unknown = null;
    try {
      answer = await routes.own(from, path, await readValue(request));
    } catch (error) {
      const known = error instanceof AppError ? error : new AppError("internal");
      if (known !== error) this.#log.error({ err: error, url: path }, "a request of another node failed");
      status = known.status;
      answer = { code: known.code, message: known.message };
    }
    const body = Buffer.from(JSON.stringify(answer ?? null));
    response.writeHead(status, { "content-type": "application/json", "content-length": body.length });
    response.end(body);
  }
}

/** Names the setting of a port that is taken. */
function explained(error: NodeJS.ErrnoException): Error {
  if (error.code !== "EADDRINUSE") return error;
  const text = `${error.message}: something else listens where other nodes are to connect; choose another port with MILLRACE_NODE_URL`;
  return new Error(text, { cause: error });
}

async function readValue(request: IncomingMessage): Promise<unknown> {
  const bytes = Number(request.headers["content-length"] ?? Number.NaN);
  if (!(bytes <= MAX_OWN_BYTES)) throw new AppError("body_too_large");
  const body = await readWhole(request, bytes);
  request.resume();
  try {
    return JSON.parse(body?.toString() ?? "");
  } catch {
    throw new AppError("invalid_json");
  }
}

/** Where a node listens: on loopback if its URL is a loopback address, else on all addresses. */
export function listenAt(
  url: string | null,
  own: number | null = null,
): { readonly host: string; readonly port: number } {
  if (url === null) return { host: "127.0.0.1", port: own ?? 0 };
  const { hostname, port } = new URL(url);
  const isLoopback = /^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);
  return { host: isLoopback ? hostname.replace(/^\[(.*)\]$/, "$1") : "::", port: own ?? Number(port) };
}
