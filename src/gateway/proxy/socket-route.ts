import type { IncomingMessage } from "node:http";
import type { LiveApp } from "../../apps/catalog.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import type { RememberedToken } from "../../identity/tokens.ts";
import { AppError } from "../../model/errors.ts";
import { headerOf, packBody } from "../../model/http-request.ts";
import { appPath, type AppRequest } from "../app-request.ts";
import { fairnessOf } from "../fairness.ts";
import type { Exchange } from "../exchange.ts";
import { pathBelow, responseHeaders } from "../proxy/headers.ts";
import type { AppRoute } from "../route.ts";
import { offersOwn, OWN_PROTOCOL, readSocketToken } from "./socket-token.ts";
import { Tunnel, type TunnelLimits, WaitingCaller } from "../../kit/websocket/tunnel.ts";
import type { Socket } from "node:net";
import { fieldLines } from "../../kit/http/fields.ts";
import type { Conversation, ConversationEnd, ResponseFlow, ResponseSink } from "../../replicas/call.ts";
import type { ResponseHead } from "../../kit/http/response-parser.ts";
import type { LiveRun, RunEnd, RunReader } from "../../runs/live-run.ts";
import { ProxyAnswer } from "../proxy/proxy-answer.ts";
import { admitRun } from "../start-run.ts";
import { type ProxyParts, type ServerCall, serverHead, serverRun } from "./proxy-route.ts";

/** `first`: bytes received together with the handshake. */
type SocketRequest = AppRequest & { readonly first: Buffer };

const NO_BODY = Buffer.alloc(0);
const LOOK_MS = 30_000;
const POLICY_VIOLATION = 1008;
/** For the last messages of both sides when the caller's right to a WebSocket has ended. */
const CUT_OFF_MS = 1_000;

/** Whether a request is a WebSocket handshake; requests for any other protocol are served as plain HTTP. */
export function asksForSocket({ method, headers }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket";
}

/** `ws://…/v4/{project}/{app}/{path…}` of an app that is a server. */
export class SocketHandler {
  readonly tunnels: Tunnels;
  readonly #parts: ProxyParts;

  constructor(parts: ProxyParts) {
    this.#parts = parts;
    this.tunnels = new Tunnels(parts.clock);
  }

  handle(request: SocketRequest): void | Promise<void> {
    const { exchange, head, route } = request;
    const { catalog, authenticator } = this.#parts;
    const live = catalog.find(route.projectId, route.appName);
    const { url = "", rawHeaders } = exchange.request;
    const path = pathBelow(url, appPath(exchange, route));
    if (live?.version.config.deployment.disableAuth) return this.#start(request, live, path, null);
    const { authorization, target } = readSocketToken(head.authorization, rawHeaders, path);
    const isServer = Boolean(live?.version.config.customRuntime);
    const admitted = authenticator.admit(request, isServer ? "server" : "nothing", authorization);
    if (!live) return this.#refuse(route, admitted);
    const start = (token: RememberedToken): void => this.#start(request, live, target, token);
    return admitted instanceof Promise ? admitted.then(start) : start(admitted);
  }

  /** Only a caller who may call the app learns why it takes no calls. */
  async #refuse(route: AppRoute, admitted: RememberedToken | Promise<RememberedToken>): Promise<never> {
    await admitted;
    throw await this.#parts.whyAbsent(route);
  }

  #start(request: SocketRequest, live: LiveApp, target: string, token: RememberedToken | null): void {
    const { exchange, first } = request;
    const { customRuntime: runtime, limits } = live.version.config;
    // Functions have no WebSockets. Checked after the token: without one, a caller must not learn about the app.
    if (!runtime) throw new AppError("not_found");
    if (exchange.response.destroyed) return;
    const { executor, authenticator, clock, trusted, tracer } = this.#parts;
    const fairness = fairnessOf(request.head, token);
    const call: ServerCall = { ...request, token, fairness, live, runtime, target, webhook: null };
    admitRun(call, this.#parts);
    const plain = serverHead(call, { isStored: false, passExpect: false, trusted });
    const head = { ...plain, headers: [...plain.headers, "connection", "Upgrade", "upgrade", "websocket"] };
    const answer = new SocketAnswer({
      exchange,
      caller: new WaitingCaller(exchange.request.socket, first),
      limits: {
        maxAgeMs: runtime.websocketMaxAgeSeconds * 1000,
        idleMs: runtime.websocketIdleSeconds * 1000,
        stallMs: limits.streamStallTimeoutSeconds * 1000,
      },
      tunnels: this.tunnels,
      hold: token && ((end) => authenticator.hold(request, "server", token, end)),
      clock,
    });
    const input = (): Buffer => packBody(head, NO_BODY);
    const http = { ...head, body: NO_BODY, keptBytes: 0, mustKeep: false, isUpgrade: true, input };
    answer.attach(executor.execute(serverRun(call, http, tracer), answer));
  }
}

type SocketAnswerParts = {
  readonly exchange: Exchange;
  /** The caller's side of the connection until the app agrees. */
  readonly caller: WaitingCaller;
  readonly limits: TunnelLimits;
  readonly tunnels: Tunnels;
  /** Calls `end` when the caller's right to the connection ends; null if that is not watched. */
  readonly hold: ((end: (error: AppError) => void) => void) | null;
  readonly clock: Clock;
};

/** The caller of a WebSocket: gets one if the app agrees, or else the app's response. */
class SocketAnswer implements RunReader {
  readonly #parts: SocketAnswerParts;
  readonly #plain: ProxyAnswer;
  #hasUpgraded = false;

  constructor(parts: SocketAnswerParts) {
    this.#parts = parts;
    const { exchange, limits, hold, clock } = parts;
    this.#plain = new ProxyAnswer(exchange, clock, limits.stallMs / 1000, hold);
  }

  attach(run: LiveRun): void {
    if (!this.#hasUpgraded) this.#plain.attach(run);
  }

  onStream(): void {}

  onChunk(): void {}

  onResponse(head: ResponseHead, flow: ResponseFlow): ResponseSink {
    return this.#plain.onResponse(head, flow);
  }

  onUpgrade(head: ResponseHead, app: Socket, rest: Buffer, onOver: ConversationEnd): Conversation | null {
    const { exchange, caller, limits, tunnels, hold, clock } = this.#parts;
    if (exchange.response.destroyed) return null;
    this.#hasUpgraded = true;
    const early = caller.leave();
    const client = exchange.takeOver();
    client.write(this.#handshake(head), "latin1");
    const tunnel = new Tunnel({
      client,
      app,
      limits,
      clock,
      onOver: (isCut) => {
        tunnels.remove(tunnel);
        exchange.tellDropped();
        onOver(isCut);
      },
    });
    tunnels.add(tunnel);
    hold?.((error) => tunnel.close(POLICY_VIOLATION, error.message, CUT_OFF_MS));
    tunnel.begin(early, rest);
    return tunnel;
  }

  onEnd(end: RunEnd): void {
    if (!this.#hasUpgraded) this.#plain.onEnd(end);
  }

  #handshake(head: ResponseHead): string {
    const { exchange } = this.#parts;
    const { headers } = responseHeaders(head, false, exchange);
    headers.push("connection", "Upgrade", "upgrade", "websocket", "x-request-id", exchange.id);
    const hasChosen = headerOf(head.headers, "sec-websocket-protocol") !== null;
    if (!hasChosen && offersOwn(exchange.request.rawHeaders))
      headers.push("sec-websocket-protocol", OWN_PROTOCOL);
    return `HTTP/1.1 101 Switching Protocols\r\n${fieldLines(headers)}\r\n`;
  }
}

/** All WebSockets of a gateway, on one timer. */
export class Tunnels {
  readonly #clock: Clock;
  readonly #open = new Set<Tunnel>();
  #timer: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(tunnel: Tunnel): void {
    this.#open.add(tunnel);
    this.#timer ??= this.#clock.every(LOOK_MS, () => this.#open.forEach((each) => each.look()));
  }

  remove(tunnel: Tunnel): void {
    this.#open.delete(tunnel);
    if (this.#open.size > 0) return;
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** Ends the remaining ones, whose replicas have stopped. */
  destroy(): void {
    for (const tunnel of this.#open) tunnel.destroy();
  }
}
