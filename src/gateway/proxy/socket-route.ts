import type { IncomingMessage } from "node:http";
import type { Catalog, LiveApp } from "../../apps/catalog.ts";
import type { AddressRanges } from "../../kit/ip-addresses.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import type { RememberedToken } from "../../identity/tokens.ts";
import { AppError } from "../../model/errors.ts";
import { headerOf, packBody, pathName } from "../../model/http-request.ts";
import type { HttpRequest } from "../../model/http-request.ts";
import type { Executor } from "../../runs/execute.ts";
import { appPath } from "../app-request.ts";
import type { Authenticator } from "../authenticate.ts";
import type { Connection } from "../connection.ts";
import type { Exchange } from "../exchange.ts";
import { pathBelow, requestHeaders, responseHeaders } from "../proxy/headers.ts";
import type { RequestHead } from "../request-head.ts";
import type { AppRoute } from "../route.ts";
import type { WhyAbsent } from "../app-request.ts";
import { offersOwn, OWN_PROTOCOL, readSocketToken } from "./socket-token.ts";
import { Tunnel, WaitingCaller } from "../../kit/websocket/tunnel.ts";
import type { Socket } from "node:net";
import type {
  Conversation,
  ConversationEnd,
  ResponseFlow,
  ResponseHead,
  ResponseSink,
} from "../../replicas/call.ts";
import type { LiveRun, RunEnd, RunReader } from "../../runs/live-run.ts";
import { ProxyAnswer } from "../proxy/proxy-answer.ts";
import type { TunnelLimits } from "../../kit/websocket/tunnel.ts";

type SocketParts = {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  readonly whyAbsent: WhyAbsent;
  readonly executor: Executor;
  readonly trusted: AddressRanges;
  readonly clock: Clock;
};

type SocketRequest = {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: AppRoute;
  /** What came after the handshake, together with it. */
  readonly first: Buffer;
};

const NO_BODY = Buffer.alloc(0);

/** Whether a request asks for a WebSocket; any other protocol is not spoken here, and such a wish is passed over. */
export function asksForSocket({ method, headers }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket";
}

/** `ws://…/v4/{project}/{app}/{path…}` of an app that is a server. */
export class SocketHandler {
  readonly tunnels: Tunnels;
  readonly #parts: SocketParts;

  constructor(parts: SocketParts) {
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

  /** Whoever may call the app is told why it takes no calls. */
  async #refuse(
    { projectId, appName: name }: AppRoute,
    admitted: RememberedToken | Promise<RememberedToken>,
  ): Promise<never> {
    await admitted;
    throw await this.#parts.whyAbsent({ projectId, name });
  }

  #start(request: SocketRequest, live: LiveApp, target: string, token: RememberedToken | null): void {
    const { exchange, first } = request;
    const { customRuntime, limits } = live.version.config;
    // Functions have no WebSockets. Checked after the token, which has to show first that its holder may know of the app.
    if (!customRuntime) throw new AppError("not_found");
    if (exchange.response.destroyed) return;
    const { executor, authenticator, clock } = this.#parts;
    const head = this.#headOf(request, target, customRuntime.passAuthorization);
    const answer = new SocketAnswer({
      exchange,
      caller: new WaitingCaller(exchange.request.socket, first),
      limits: {
        maxAgeMs: customRuntime.websocketMaxAgeSeconds * 1000,
        idleMs: customRuntime.websocketIdleSeconds * 1000,
        stallMs: limits.streamStallTimeoutSeconds * 1000,
      },
      tunnels: this.tunnels,
      hold: token && ((end) => authenticator.hold(request, "server", token, end)),
      clock,
    });
    const input = (): Buffer => packBody(head, NO_BODY);
    const run = executor.execute(
      {
        id: exchange.id,
        target: live.target,
        functionName: pathName(target),
        body: NO_BODY,
        isBare: true,
        ip: exchange.ip ?? exchange.request.socket.remoteAddress ?? null,
        caller: token && token.principal.caller,
        webhook: null,
        http: { ...head, body: NO_BODY, keptBytes: 0, mustKeep: false, isUpgrade: true, input },
      },
      answer,
    );
    answer.attach(run);
  }

  #headOf({ exchange, head, route }: SocketRequest, target: string, passAuthorization: boolean): HttpRequest {
    const { request, remote } = exchange;
    const by = {
      runId: exchange.id,
      prefix: appPath(exchange, route),
      remote,
      trusted: this.#parts.trusted,
      passAuthorization,
      passExpect: false,
      isStored: false,
    };
    const headers = requestHeaders(request, head, by);
    headers.push("connection", "Upgrade", "upgrade", "websocket");
    return { method: "GET", target, headers };
  }
}

type SocketAnswerParts = {
  readonly exchange: Exchange;
  /** Its end of the connection, until the app has agreed. */
  readonly caller: WaitingCaller;
  readonly limits: TunnelLimits;
  readonly tunnels: Tunnels;
  /** Has `end` called when the caller's right to the connection ends; null if nobody watches that. */
  readonly hold: ((end: (error: AppError) => void) => void) | null;
  readonly clock: Clock;
};

const POLICY_VIOLATION = 1008;
/** What both sides of a WebSocket have for their last words whose caller may use it no more. */
const CUT_OFF_MS = 1_000;

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
    let text = "HTTP/1.1 101 Switching Protocols\r\n";
    for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
    return `${text}\r\n`;
  }
}

const LOOK_MS = 30_000;

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

  /** Ends those that are left: their replicas have said goodbye. */
  destroy(): void {
    for (const tunnel of this.#open) tunnel.destroy();
  }
}
