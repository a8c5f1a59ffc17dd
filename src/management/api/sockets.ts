import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { requireRole } from "../../identity/principal.ts";
import type { Role } from "../../model/roles.ts";
import { type Clock, type Timer, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { AppError, rawRefusal } from "../../model/errors.ts";
import type { ManagementConnections } from "./connections.ts";
import type { Authenticate } from "./mount.ts";
import type { AppKey } from "../../nodes/forward/app-locator.ts";
import { type Pipelines, refuseAppHost, requireClearHead } from "./pipelines.ts";
import type { ManagementForwarding } from "./forwarding.ts";

export type SocketRoute = {
  /** The required role in the query's project. */
  readonly access: Role;
  /** The app that it shows; null if there is none. */
  appOf(query: URLSearchParams): Promise<AppKey | null>;
  /** Called before the upgrade; throws an `AppError` to refuse it. */
  open(query: URLSearchParams): Promise<Frames>;
};

/** Texts to send, a few at a time; the next are requested when these are sent. Ends at the signal. */
type Frames = (signal: AbortSignal) => AsyncIterable<readonly string[]>;

export type SocketParts = {
  readonly authenticate: Authenticate;
  readonly connections: Pick<ManagementConnections, "receive">;
  readonly pipelines: Pick<Pipelines, "othersAnswered">;
  /** Null for a service alone. */
  readonly forwarding?: ManagementForwarding | null;
  readonly log: Log;
  readonly clock: Clock;
  /** The domain of app hosts; null if the setting is unset. */
  readonly appHosts?: string | null;
  /** How many may be open for one project. */
  readonly maxOfProject?: number;
};

export type Sockets = { readonly openCount: number; close(): Promise<void> };

const MAX_SOCKETS = 1_000;
const MAX_SOCKETS_OF_PROJECT = 250;
/** Readers send nothing but control frames. */
const MAX_MESSAGE_BYTES = 4_096;
/** A reader that takes nothing for this long is dropped. */
const STALL_MS = 60_000;
/** A revoked token stops within 5 s: a judgement of a token is at most 2.5 s old. */
const CHECK_MS = 1_000;
const CHECKS_PER_PING = 30;
const CLOSE_MS = 2_000;

const TOO_MANY = { message: "The project has too many open log sockets.", headers: { "retry-after": "5" } };

const CLOSE = { ended: 1000, policy: 1008, failed: 1011, restart: 1012, later: 1013 } as const;

/** Serves WebSockets. Only they take the token in the query: a browser cannot send a header with them. */
export function attachSockets(
  server: Server,
  routes: Readonly<Record<string, SocketRoute>>,
  parts: SocketParts,
): Sockets {
  const options = { noServer: true, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false };
  const upgrader = new WebSocketServer(options);
  const closing = new AbortController();
  const shares = new SocketShares(MAX_SOCKETS, parts.maxOfProject ?? MAX_SOCKETS_OF_PROJECT);
  const routeOf = ({ url }: IncomingMessage): SocketRoute | undefined => {
    const path = addressOf(url).pathname;
    return Object.hasOwn(routes, path) ? routes[path] : undefined;
  };
  // Otherwise a client that offers HTTP/2 would count as a WebSocket.
  Object.assign(server, { shouldUpgradeCallback: (request: IncomingMessage) => Boolean(routeOf(request)) });

  const onUpgrade = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    // It may break at any time.
    socket.on("error", () => socket.destroy());
    try {
      // All earlier HTTP requests come first.
      await parts.pipelines.othersAnswered(request.socket);
      if (socket.destroyed) return;
      requireClearHead(request);
      refuseAppHost(request, parts.appHosts ?? null);
      const { onKnown } = parts.connections.receive(request, socket);
      const route = routeOf(request);
      if (!route) throw new AppError("not_found");
      const { searchParams: query } = addressOf(request.url);
      const requireAccess = async (): Promise<void> => {
        const token = query.get("token");
        const principal = await parts.authenticate(
          token === null ? (request.headers.authorization ?? null) : `Bearer ${token}`,
        );
        requireRole(principal, query.get("projectID") ?? "", route.access);
      };
      await requireAccess();
      const projectId = query.get("projectID") ?? "";
      onKnown(projectId);
      const { forwarding = null } = parts;
      const app = forwarding && (await route.appOf(query));
      const first = app ? await forwarding?.forwardSocket(request, socket as Socket, head, app) : head;
      if (!first) return;
      // Before the database is read, because refused clients reconnect.
      if (!shares.hasRoom(projectId)) throw new AppError("too_many_requests", TOO_MANY);
      const frames = await route.open(query);
      // It has closed: there would be no close event.
      if (socket.destroyed) return;
      const permit = shares.enter(projectId);
      if (!permit) throw new AppError("too_many_requests", TOO_MANY);
      socket.once("close", () => shares.leave(permit));
      upgrader.handleUpgrade(request, socket, first, (webSocket) => {
        permit.onTaken = () => webSocket.close(CLOSE.later, "another project needs the connection");
        void serve(webSocket, frames, requireAccess, closing.signal, parts);
      });
    } catch (error) {
      const said = { err: error, url: maskToken(request.url) };
      if (!(error instanceof AppError))
        parts.log.error(said, "a WebSocket upgrade failed with an internal error");
      refuse(socket, error instanceof AppError ? error : new AppError("internal"));
    }
  };
  server.on("upgrade", (request, socket, head) => void onUpgrade(request, socket, head));

  return {
    get openCount() {
      return upgrader.clients.size;
    },
    close: async () => {
      closing.abort();
      await Promise.all([...upgrader.clients].map(async (webSocket) => await end(webSocket, parts.clock)));
    },
  };
}

/** Sends frames as fast as the reader takes them, until one side closes. */
async function serve(
  webSocket: WebSocket,
  frames: Frames,
  requireAccess: () => Promise<void>,
  closing: AbortSignal,
  { log, clock }: SocketParts,
): Promise<void> {
  const gone = new AbortController();
  webSocket.on("close", () => gone.abort());
  webSocket.on("error", () => webSocket.terminate());
  const watch = watchOver(webSocket, requireAccess, clock);
  try {
    for await (const texts of frames(AbortSignal.any([gone.signal, closing]))) {
      if (await send(webSocket, texts, clock)) continue;
      webSocket.close(CLOSE.later, "the reader is too slow");
      return;
    }
    webSocket.close(closing.aborted ? CLOSE.restart : CLOSE.ended);
  } catch (error) {
    if (!(error instanceof AppError)) log.error({ err: error }, "a WebSocket failed with an internal error");
    const code = error instanceof AppError ? error.code : "internal";
    webSocket.close(code === "app_moved" ? CLOSE.restart : CLOSE.failed, code);
  } finally {
    watch.cancel();
    await end(webSocket, clock);
  }
}

/** Resolves with whether the texts were sent in time. */
async function send(webSocket: WebSocket, texts: readonly string[], clock: Clock): Promise<boolean> {
  const left = texts.map((text) => new Promise<true>((resolve) => webSocket.send(text, () => resolve(true))));
  return (await withTimeout(STALL_MS, Promise.all(left), clock)) !== null;
}

/** Ends the socket of a token that is no longer good, and of a peer that has vanished. */
function watchOver(webSocket: WebSocket, requireAccess: () => Promise<void>, clock: Clock): Timer {
  let checks = 0;
  let isAlive = true;
  webSocket.on("pong", () => (isAlive = true));
  const look = async (): Promise<void> => {
    checks += 1;
    // While data is buffered, the send timeout detects a dead peer.
    if (checks % CHECKS_PER_PING === 0 && webSocket.bufferedAmount === 0) {
      if (!isAlive) webSocket.terminate();
      isAlive = false;
      webSocket.ping();
    }
    try {
      await requireAccess();
    } catch (error) {
      // While the database is unreachable, a token stays valid.
      const isRefused = error instanceof AppError && error.status < 500;
      if (!isRefused || webSocket.readyState !== webSocket.OPEN) return;
      webSocket.close(CLOSE.policy, error.code);
      // Without an answer, the connection is terminated.
      await end(webSocket, clock);
    }
  };
  return clock.every(CHECK_MS, () => void look());
}

/** Waits for the closing handshake, not for long. */
async function end(webSocket: WebSocket, clock: Clock): Promise<void> {
  const closed = new Promise<true>((resolve) => {
    if (webSocket.readyState === webSocket.CLOSED) resolve(true);
    else webSocket.once("close", () => resolve(true));
  });
  if (!(await withTimeout(CLOSE_MS, closed, clock))) webSocket.terminate();
}

function refuse(socket: Duplex, error: AppError): void {
  socket.end(rawRefusal(error, randomUUID()), () => socket.destroy());
}

function addressOf(url = "/"): URL {
  return URL.parse(url, "http://localhost") ?? new URL("http://localhost/");
}

/** The URL without its token, for the log. */
export function maskToken(url = ""): string {
  return url.replaceAll(/([?&]token=)[^&#]*/gi, "$1***");
}

export type Permit = {
  readonly owner: string;
  /** Called when an owner with fewer permits takes it. */
  onTaken: () => void;
};

/** Limits open sockets. At the total limit, an owner with few takes the newest of the owner with most. */
export class SocketShares {
  readonly #max: number;
  readonly #maxOfOwner: number;
  /** Of each owner, the oldest first. */
  readonly #permits = new Map<string, Set<Permit>>();
  #count = 0;

  constructor(max: number, maxOfOwner: number) {
    this.#max = max;
    this.#maxOfOwner = maxOfOwner;
  }

  hasRoom(owner: string): boolean {
    return (this.#permits.get(owner)?.size ?? 0) < this.#maxOfOwner;
  }

  /** Null if the owner has its share. */
  enter(owner: string): Permit | null {
    const own = this.#permits.get(owner) ?? new Set();
    if (!this.hasRoom(owner)) return null;
    if (this.#count >= this.#max && !this.#makeRoom(own.size)) return null;
    const permit = { owner, onTaken: () => {} };
    own.add(permit);
    this.#permits.set(owner, own);
    this.#count += 1;
    return permit;
  }

  /** Idempotent. */
  leave(permit: Permit): void {
    const own = this.#permits.get(permit.owner);
    if (!own?.delete(permit)) return;
    this.#count -= 1;
    if (own.size === 0) this.#permits.delete(permit.owner);
  }

  /** Takes a permit from the owner with the most, unless that owner would then have fewer than the new one. */
  #makeRoom(ownCount: number): boolean {
    let most: Set<Permit> | null = null;
    for (const permits of this.#permits.values()) if (permits.size > (most?.size ?? 0)) most = permits;
    const newest = most && most.size > ownCount + 1 ? [...most].at(-1) : undefined;
    if (!newest) return false;
    this.leave(newest);
    newest.onTaken();
    return true;
  }
}
