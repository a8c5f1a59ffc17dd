import type { IncomingMessage } from "node:http";
import type { Catalog, LiveApp } from "../../apps/catalog.ts";
import type { AddressRanges } from "../../kit/address-ranges.ts";
import type { Clock } from "../../kit/clock.ts";
import type { RememberedToken } from "../../identity/tokens.ts";
import { AppError } from "../../model/errors.ts";
import { packBody, pathName } from "../../model/http-request.ts";
import type { HttpRequest } from "../../model/http-request.ts";
import type { Executor } from "../../runs/execute.ts";
import { appPath } from "../app-url.ts";
import type { Authenticator } from "../authenticate.ts";
import type { Connection } from "../connection.ts";
import type { Exchange } from "../exchange.ts";
import { pathBelow, requestHeaders } from "../proxy/request-headers.ts";
import type { RequestHead } from "../request-head.ts";
import type { AppRoute } from "../route.ts";
import type { WhyAbsent } from "../why-absent.ts";
import { SocketAnswer } from "./socket-answer.ts";
import { readSocketToken } from "./socket-token.ts";
import { Tunnels } from "./tunnels.ts";
import { WaitingCaller } from "../../kit/websocket/waiting-caller.ts";

export type SocketParts = {
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
