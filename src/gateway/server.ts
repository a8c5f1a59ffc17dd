import type { IncomingMessage, Server } from "node:http";
import type { ListenerLimits } from "../config/listener-limits.ts";
import { BACKLOG, checkingInterval, MAX_PIPELINED } from "../kit/listener.ts";
import { createServer, ServerResponse } from "../kit/node-http.ts";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { RUN_AHEAD_MS, UuidSource } from "../kit/ids.ts";
import { clientAddress } from "../kit/ip-addresses.ts";
import type { Log } from "../kit/log.ts";
import { AppError, noRoom } from "../model/errors.ts";
import type { Others } from "../nodes/forward/app-locator.ts";
import type { FromPeer, PeerRoutes } from "../nodes/peer-listener.ts";
import { type AppRequest, sendDocument } from "./app-request.ts";
import { type HostParts, RouteFinder } from "./find-route.ts";
import { type Connection, Connections } from "./connection.ts";
import { closeJsonChecker } from "./json/off-thread.ts";
import { BodyRoom, bodyRoomBytes } from "./body.ts";
import { BatchHandler, type BatchParts } from "./batches/batch-route.ts";
import { OpenAiBatches } from "./batches/openai-route.ts";
import { BatchUploads, isLines } from "./batches/upload-route.ts";
import { CallHandler } from "./call-route.ts";
import { Cors } from "./cors.ts";
import { Feeds } from "./events/feeds.ts";
import { Exchange, type ExchangeParts, OpenExchanges } from "./exchange.ts";
import { Forwarding } from "./forwarding.ts";
import { ProxyHandler, type ProxyParts } from "./proxy/proxy-route.ts";
import { readHead } from "./request-head.ts";
import { asksForSocket, SocketHandler } from "./proxy/socket-route.ts";
import type { Route } from "./route.ts";
import { RunHandler, type RunParts } from "./run-route.ts";
import { RunStarter } from "./start-run.ts";
import { UnreadAnswers } from "./unread-answers.ts";

const MAX_HEADER_BYTES = 16 * 1024;

/** Node's HTTP server with the gateway's limits. `readHead` checks heads, because Node's own error answers are not JSON. */
function createHttpServer(
  { headerTimeoutMs, bodyTimeoutMs, idleTimeoutMs }: ListenerLimits,
  mayUpgrade: (request: IncomingMessage) => boolean,
): Server {
  // Node requires headersTimeout <= requestTimeout.
  const headersTimeout = Math.min(headerTimeoutMs, bodyTimeoutMs);
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout,
    requestTimeout: bodyTimeoutMs,
    keepAliveTimeout: idleTimeoutMs,
    connectionsCheckingInterval: checkingInterval(headersTimeout),
    requireHostHeader: false,
    shouldUpgradeCallback: mayUpgrade,
    noDelay: true,
  });
  // `readHead` counts them; Node would drop further headers silently.
  server.maxHeadersCount = 0;
  return server;
}

type GatewayOptions = RunParts &
  BatchParts &
  Omit<ProxyParts, "bodyRoom"> &
  ListenerLimits &
  HostParts & {
    readonly host: string;
    readonly port: number;
    readonly corsOrigins: readonly string[];
    /** What the bodies of calls in progress may take together; by default a part of the machine's memory. */
    readonly bodyRoomBytes?: number;
    /** The other nodes; null for a service alone. */
    readonly others?: Others | null;
    readonly log: Log;
  };

/** `first`: bytes received with a WebSocket handshake; null for any other request. */
type Routed = AppRequest<Route> & { readonly first: Buffer | null };

/** How long a closing gateway waits for answers. */
const LAST_ANSWERS_MS = 5_000;

/** The listener where apps are called: `{api_url}`. */
export class Gateway {
  readonly #options: GatewayOptions;
  readonly #server: Server;
  readonly #routes: RouteFinder;
  /** Not shared: ids follow this service's clock; another service in the process may have a different one. */
  readonly #ids = new UuidSource(RUN_AHEAD_MS);
  readonly #exchanges: ExchangeParts;
  readonly #open = new OpenExchanges();
  readonly #closing = new AbortController();
  readonly #connections: Connections;
  readonly #forwarding: Forwarding | null;
  readonly #calls: CallHandler;
  readonly #proxy: ProxyHandler;
  readonly #runs: RunHandler;
  readonly #batches: BatchHandler;
  readonly #sockets: SocketHandler;
  /** Handles what other nodes forward. Such a request is never forwarded again. */
  readonly peerRoutes: Pick<PeerRoutes, "api" | "apiUpgrade"> = {
    api: (request, response, from) => this.#receive(request, response, from),
    apiUpgrade: (request, socket, first, from) => this.#upgrade(request, socket, first, from),
  };
  #isDraining = false;
  unanswered = 0;

  private constructor(options: GatewayOptions) {
    this.#options = options;
    this.#routes = new RouteFinder(options);
    this.#exchanges = {
      cors: new Cors(options.corsOrigins),
      onFault: (exchange, error) => this.#fail(exchange, error),
      open: this.#open,
      unread: new UnreadAnswers(options.idleTimeoutMs, options.clock),
      tellDropped: (nodeId, requestId) => options.others?.locator.tellDropped(nodeId, requestId),
    };
    const bodyRoom = new BodyRoom(options.bodyRoomBytes ?? bodyRoomBytes());
    const parts = { ...options, bodyRoom };
    this.#proxy = new ProxyHandler(parts);
    this.#sockets = new SocketHandler(parts);
    const uploads = new BatchUploads(parts);
    const openAi = new OpenAiBatches({ ...parts, closing: this.#closing.signal });
    const starter = new RunStarter(parts);
    this.#calls = new CallHandler({ ...parts, starter, proxy: this.#proxy, uploads, openAi });
    const { others = null, clock } = options;
    this.#forwarding = others && new Forwarding({ ...others, clock });
    const closing = this.#closing.signal;
    const feeds = new Feeds(options);
    this.#runs = new RunHandler({ ...parts, feeds, closing, forwarding: this.#forwarding });
    this.#batches = new BatchHandler({ ...parts, closing });
    this.#connections = new Connections({ ...options, maxPerAddress: options.maxConnectionsPerAddress });
    this.#server = createHttpServer(
      options,
      // Behind pending requests a handshake is a plain request, because their answers come first.
      (request) => asksForSocket(request) && this.#connections.of(request.socket).pending === 0,
    );
    this.#server.on("connection", (socket: Socket) => this.#connections.add(socket));
    for (const event of ["request", "checkContinue"])
      this.#server.on(event, (request: IncomingMessage, response: ServerResponse) =>
        this.#receive(request, response),
      );
    this.#server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
      const connection = this.#connections.of(request.socket);
      if (connection.isOver) return;
      connection.isOver = true;
      const exchange = this.#exchange(connection, request, response, null);
      exchange.isLast = true;
      exchange.fail(new AppError("expectation_failed"));
    });
    this.#server.on("upgrade", (request: IncomingMessage, socket: Socket, first: Buffer) =>
      this.#upgrade(request, socket, first),
    );
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) =>
      this.#connections.onClientError(error, socket),
    );
  }

  static async listen(options: GatewayOptions): Promise<Gateway> {
    const gateway = new Gateway(options);
    await new Promise<void>((resolve, reject) => {
      gateway.#server.once("error", reject);
      gateway.#server.listen({ host: options.host, port: options.port, backlog: BACKLOG }, resolve);
    });
    return gateway;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Refuses new calls, or forwards them to the owners of their apps; calls in progress continue. */
  startDraining(): void {
    this.#isDraining = true;
    this.#forwarding?.startDraining();
    this.#server.closeIdleConnections();
  }

  async settleForwarding(): Promise<void> {
    await this.#forwarding?.settle();
  }

  /** Ends every connection, last those that wait for an answer. All runs have ended: a missing answer is a bug. */
  async close(): Promise<void> {
    const { clock, log } = this.#options;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#closing.abort();
    this.unanswered = await this.#open.settle(LAST_ANSWERS_MS, clock);
    if (this.unanswered > 0) log.error({ count: this.unanswered }, "some requests were never answered");
    this.#sockets.tunnels.destroy();
    this.#forwarding?.close();
    this.#server.closeAllConnections();
    await closed;
    await closeJsonChecker();
  }

  #exchange(
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    from: FromPeer | null,
  ): Exchange {
    // On a call it is also the id of the run.
    const id = this.#ids.next(this.#options.clock.now());
    const exchange = new Exchange(request, response, id, this.#exchanges);
    exchange.from = from;
    exchange.connection = connection;
    connection.pending += 1;
    connection.latest = exchange;
    return exchange;
  }

  #receive(request: IncomingMessage, response: ServerResponse, from: FromPeer | null = null): void {
    const connection = this.#connections.of(request.socket);
    // The previous answer closes the connection.
    if (connection.isOver) return;
    if (connection.pending >= MAX_PIPELINED) {
      // Node still emits further requests of the same packet.
      connection.isOver = true;
      request.socket.destroy();
      return;
    }
    const exchange = this.#exchange(connection, request, response, from);
    exchange.attempt(() => this.#handle(connection, exchange, null));
  }

  /** A WebSocket handshake: the connection is already detached from HTTP. */
  #upgrade(request: IncomingMessage, socket: Socket, first: Buffer, from: FromPeer | null = null): void {
    socket.on("error", () => {}); // `close` follows.
    const connection = this.#connections.of(socket);
    if (connection.isOver) {
      socket.destroy();
      return;
    }
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    const exchange = this.#exchange(connection, request, response, from);
    exchange.attempt(() => this.#handle(connection, exchange, first));
  }

  #handle(connection: Connection, exchange: Exchange, first: Buffer | null): void | Promise<void> {
    // If the head is malformed, nothing that follows it on the connection can be trusted.
    connection.isOver = true;
    exchange.isLast = true;
    const head = readHead(exchange.request);
    connection.isOver = false;
    exchange.head = head;
    exchange.isLast = first !== null || this.#isDraining;
    this.#admit(connection, exchange);
    const route = this.#routes.find(exchange);
    if (route instanceof Promise)
      return route.then((found) => this.#direct({ connection, exchange, head, route: found, first }));
    return this.#direct({ connection, exchange, head, route, first });
  }

  /** Serves a request here, or forwards it to the node that owns the app. */
  #direct(request: Routed): void | Promise<void> {
    const { exchange, head, route, first } = request;
    if (first && (route.kind === "run" || route.kind === "batch")) throw new AppError("not_found");
    if (route.kind === "call" && route.isBatches) exchange.isPaced = isLines(head.contentType);
    if (!this.#forwarding || !this.#mayBeRemote(route)) return this.#serve(request, first);
    return this.#forwarding.handle({ exchange, route, first }, (sent) => this.#serve(request, sent ?? first));
  }

  /** Whether the request may be for another node, as far as is known without asking. */
  #mayBeRemote(route: Route): boolean {
    const { catalog, lookup } = this.#options;
    if (route.kind === "run" && lookup.isLive(route.runId)) return false;
    return this.#isDraining || !catalog.has(route.projectId, route.appName);
  }

  #serve({ connection, exchange, head, route }: Routed, first: Buffer | null): void | Promise<void> {
    if (first) {
      if (this.#isDraining) return this.#refuseCall(exchange);
      return this.#sockets.handle({ connection, exchange, head, route, first });
    }
    if (exchange.from?.isHeld) exchange.response.writeContinue();
    // Preflights carry no token, so the answer is the same for every app. Any other OPTIONS may be for a server app.
    if (
      exchange.request.method === "OPTIONS" &&
      head.origin !== null &&
      exchange.request.headers["access-control-request-method"] !== undefined
    ) {
      exchange.answerPreflight();
      return undefined;
    }
    if (this.#isDraining && (route.kind === "call" || route.kind === "path"))
      return this.#refuseCall(exchange);
    switch (route.kind) {
      case "call":
        return this.#calls.handle({ connection, exchange, head, route });
      case "path":
        return this.#proxy.handlePath({ connection, exchange, head, route });
      case "run":
        return this.#runs.handle({ connection, exchange, head, route });
      case "batch":
        if (this.#proxy.hasOwnBatches(route))
          return this.#proxy.handlePath({ connection, exchange, head, route });
        return this.#batches.handle({ connection, exchange, head, route });
      case "document":
        if (this.#proxy.isServer(route)) return this.#proxy.handlePath({ connection, exchange, head, route });
        return sendDocument(this.#options, { connection, exchange, head, route });
      default:
        return route satisfies never;
    }
  }

  /** The service is stopping; a node that forwarded the call may find another owner. */
  #refuseCall(exchange: Exchange): void {
    if (!exchange.from) throw new AppError("draining", { headers: { "retry-after": "1" } });
    exchange.answerMoved();
  }

  /** Enforces connection limits; behind a trusted proxy, by the address that the proxy reports. */
  #admit({ visitor }: Connection, exchange: Exchange): void {
    const { response, head, remote, from } = exchange;
    if (from) exchange.ip = clientAddress(remote, head?.forwardedFor ?? null, this.#options.trusted);
    if (!visitor) return;
    if (visitor.refusal !== null) {
      exchange.isLast = true;
      throw noRoom(visitor.refusal);
    }
    if (visitor.address !== null) return;
    exchange.ip = clientAddress(remote, head?.forwardedFor ?? null, this.#options.trusted);
    const leave = this.#connections.gate.enter(exchange.ip);
    if (!leave) throw noRoom("address");
    exchange.onKnown = leave;
    response.once("close", leave);
  }

  /** Answers with an error; one that is not meant for callers is logged in full and answered as `internal`. */
  #fail(exchange: Exchange, error: unknown): void {
    if (error instanceof AppError) {
      // The caller is authenticated, so it may learn that there is no such app.
      const isNoApp = exchange.isOnAppHost && error.code === "app_not_found";
      exchange.fail(isNoApp ? new AppError("misdirected") : error);
      return;
    }
    this.#options.log.error(
      { err: error, requestId: exchange.id },
      "a request failed with an internal error",
    );
    exchange.fail(new AppError("internal"));
  }
}
