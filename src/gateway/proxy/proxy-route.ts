import type { Catalog, LiveApp } from "../../apps/catalog.ts";
import type { AddressRanges } from "../../kit/ip-addresses.ts";
import type { Clock } from "../../kit/clock.ts";
import type { RememberedToken } from "../../identity/tokens.ts";
import type { CustomRuntimeConfig } from "../../model/app-config.ts";
import { AppError } from "../../model/errors.ts";
import { packBody, pathName } from "../../model/http-request.ts";
import type { HttpRequest } from "../../model/http-request.ts";
import type { Executor } from "../../runs/execute.ts";
import type { RunRequest, ServerRequest, Webhook } from "../../runs/live-run.ts";
import { storedRequest } from "../../runs/ended-run.ts";
import type { Submitter } from "../../runs/submit.ts";
import { answerAccepted, appPath } from "../app-request.ts";
import type { Authenticator } from "../authenticate.ts";
import type { BodyRoom } from "../body.ts";
import type { Connection } from "../connection.ts";
import type { Exchange } from "../exchange.ts";
import { hasBody, readBody, tooLarge } from "../body.ts";
import { readWebhook } from "../start-run.ts";
import type { WebhookParts } from "../start-run.ts";
import type { RequestHead } from "../request-head.ts";
import type { AppRoute, ProxyTarget } from "../route.ts";
import type { WhyAbsent } from "../app-request.ts";
import { ProxyAnswer } from "./proxy-answer.ts";
import { readTarget } from "../route.ts";
import { pathBelow, requestHeaders, requestTrailers } from "./headers.ts";
import type { IncomingMessage } from "node:http";
import { KeptBody, releaseBytes } from "../../kit/bytes.ts";
import type { BodySource } from "../../replicas/call.ts";

type ProxyParts = WebhookParts & {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  readonly whyAbsent: WhyAbsent;
  readonly executor: Executor;
  readonly submitter: Submitter;
  readonly bodyRoom: BodyRoom;
  readonly trusted: AddressRanges;
  readonly publicApiUrl: string | null;
  readonly clock: Clock;
};

type AppRequest = {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: AppRoute;
};

/** A request that may go to the app's server. */
type Admitted = AppRequest &
  ProxyTarget & {
    /** Null for a public app. */
    readonly token: RememberedToken | null;
    readonly live: LiveApp;
    readonly runtime: CustomRuntimeConfig;
    readonly webhook: Webhook | null;
  };

const NO_BODY = Buffer.alloc(0);
/** What is kept of a body that somebody waited for, as of a function's; a body this small is read at once. */
const LITTLE_BYTES = 64 * 1024;

/**
 * `/v4/{project}/{app}/{path…}` of an app that is a server: the checks in the contract's order, then the run. Paths
 * and queries stay as they came.
 */
export class ProxyHandler {
  readonly #parts: ProxyParts;

  constructor(parts: ProxyParts) {
    this.#parts = parts;
  }

  /** Whether the app of a route is a server. */
  isServer({ projectId, appName }: AppRoute): boolean {
    return this.#parts.catalog.isServer(projectId, appName);
  }

  /** An address that is no function's: there is something only if the app is a server. */
  handlePath(request: AppRequest): void | Promise<void> {
    const { projectId, appName } = request.route;
    const live = this.#parts.catalog.find(projectId, appName);
    return live?.version.config.customRuntime ? this.handle(request, live) : this.#refuse(request, live);
  }

  /** Only a caller who may call the app learns whether it exists, and why it takes no calls. */
  async #refuse(request: AppRequest, live: LiveApp | undefined): Promise<never> {
    const { authenticator, whyAbsent } = this.#parts;
    if (!live?.version.config.deployment.disableAuth) await authenticator.admit(request, "nothing");
    if (live) throw new AppError("not_found");
    throw await whyAbsent({ projectId: request.route.projectId, name: request.route.appName });
  }

  handle(request: AppRequest, live: LiveApp): void | Promise<void> {
    // A public server may have tokens of its own: whose they are is not our affair.
    if (live.version.config.deployment.disableAuth) return this.#admit(request, live, null);
    const admitted = this.#parts.authenticator.admit(request, "server");
    if (admitted instanceof Promise) return admitted.then((token) => this.#admit(request, live, token));
    return this.#admit(request, live, admitted);
  }

  #admit(request: AppRequest, live: LiveApp, token: RememberedToken | null): void | Promise<void> {
    const { exchange, head, route } = request;
    const { customRuntime: runtime, limits } = live.version.config;
    if (!runtime) throw new AppError("not_found");
    const { url = "", method = "GET" } = exchange.request;
    const { target, query } = readTarget(pathBelow(url, appPath(exchange, route)), method);
    if (head.contentLength !== null && Number(head.contentLength) > limits.maxBodyBytes)
      throw tooLarge(limits.maxBodyBytes);
    const { webhookEndpoint } = query;
    const webhook =
      webhookEndpoint === null ? null : readWebhook(exchange.id, head, webhookEndpoint, this.#parts);
    const admitted: Admitted = { ...request, token, live, runtime, target, query, webhook };
    if (query.isAsync) {
      this.#read(admitted, (body) => this.#submit(admitted, body));
      return undefined;
    }
    if (!hasBody(head)) return this.#execute(admitted, NO_BODY);
    if (!head.isChunked && Number(head.contentLength) <= LITTLE_BYTES) {
      this.#read(admitted, (body) => this.#execute(admitted, body));
      return undefined;
    }
    return this.#stream(admitted);
  }

  /** Reads the whole body, which is then the app's in one piece. */
  #read(admitted: Admitted, go: (body: Buffer) => void | Promise<void>): void {
    const { exchange, head, route, live } = admitted;
    if (!hasBody(head)) {
      exchange.attempt(() => go(NO_BODY));
      return;
    }
    const { maxBodyBytes } = live.version.config.limits;
    if (head.isHeldBack) exchange.response.writeContinue();
    const room = () => this.#parts.bodyRoom.open(route.projectId, exchange);
    readBody(exchange.request, maxBodyBytes, room, (error, body) => {
      if (error) exchange.fail(error);
      else exchange.attempt(() => this.#confirmed(admitted, () => go(body)));
    });
  }

  /** The body may have taken longer than the token lasted. */
  #confirmed(admitted: Admitted, go: () => void | Promise<void>): void | Promise<void> {
    const { token } = admitted;
    const confirming = token ? this.#parts.authenticator.confirm(admitted, "server", token) : undefined;
    return confirming ? confirming.then(go) : go();
  }

  async #submit(admitted: Admitted, body: Buffer): Promise<void> {
    const { exchange, route, live } = admitted;
    const head = this.#headOf(admitted, { isStored: true, passExpect: false });
    const http = storedRequest(head, body, live.version.config.limits);
    await this.#parts.submitter.submit(this.#runOf(admitted, http));
    answerAccepted(exchange, route, this.#parts.publicApiUrl, exchange.id);
  }

  #execute(admitted: Admitted, body: Buffer): void | Promise<void> {
    const head = this.#headOf(admitted, { isStored: false, passExpect: false });
    return this.#start(admitted, {
      ...head,
      ...keepOf(admitted),
      body,
      input: () => packBody(head, body),
    });
  }

  /** A body that is large, or of unknown length, goes on as it comes. */
  #stream(admitted: Admitted): void | Promise<void> {
    const { exchange, head: given, live } = admitted;
    const { maxBodyBytes } = live.version.config.limits;
    const head = this.#headOf(admitted, { isStored: false, passExpect: given.isHeldBack });
    const length = given.isChunked ? null : Number(given.contentLength);
    const limits = { maxBytes: maxBodyBytes, keptBytes: keepOf(admitted).keptBytes };
    const body = new ProxyBody(exchange.request, length, limits, () =>
      exchange.breakOff(tooLarge(maxBodyBytes)),
    );
    const input = (): Buffer | null => {
      const kept = body.kept();
      return kept && packBody(head, kept);
    };
    return this.#start(admitted, { ...head, ...keepOf(admitted), body, input });
  }

  #start(admitted: Admitted, http: ServerRequest): void | Promise<void> {
    const { exchange, token, live, webhook } = admitted;
    const { executor, submitter, authenticator, clock } = this.#parts;
    if (exchange.response.destroyed) return undefined;
    const run = this.#runOf(admitted, http);
    const { streamStallTimeoutSeconds } = live.version.config.limits;
    const hold = token && ((end: () => void) => authenticator.hold(admitted, "server", token, end));
    const answer = new ProxyAnswer(exchange, clock, streamStallTimeoutSeconds, hold);
    // A webhook waits for it, so it has to survive a crash.
    if (webhook) return submitter.executeKept(run, answer).then((started) => answer.attach(started));
    answer.attach(executor.execute(run, answer));
    return undefined;
  }

  #runOf({ exchange, token, live, target, webhook }: Admitted, http: ServerRequest): RunRequest {
    return {
      id: exchange.id,
      target: live.target,
      functionName: pathName(target),
      body: NO_BODY,
      isBare: true,
      ip: exchange.ip ?? exchange.request.socket.remoteAddress ?? null,
      caller: token && token.principal.caller,
      webhook,
      http,
    };
  }

  #headOf(
    { exchange, head, route, runtime, target }: Admitted,
    how: { readonly isStored: boolean; readonly passExpect: boolean },
  ): HttpRequest {
    const { request, remote, id: runId } = exchange;
    const { passAuthorization } = runtime;
    const prefix = appPath(exchange, route);
    const by = { ...how, runId, prefix, remote, trusted: this.#parts.trusted, passAuthorization };
    return { method: request.method ?? "GET", target, headers: requestHeaders(request, head, by) };
  }
}

/** How much of the answer is kept: all that a webhook is to get, else as much as of a function's. */
function keepOf({ live, webhook }: Admitted): { readonly keptBytes: number; readonly mustKeep: boolean } {
  const { limits, deployment } = live.version.config;
  if (webhook) return { keptBytes: limits.maxResultBytes, mustKeep: true };
  return { keptBytes: deployment.recordPayloads === "all" ? LITTLE_BYTES : 0, mustKeep: false };
}

/** A request's body on its way through: read as fast as the app takes it, never more than `maxBytes`. */
class ProxyBody implements BodySource {
  readonly length: number | null;
  readonly #request: IncomingMessage;
  readonly #maxBytes: number;
  readonly #kept: KeptBody;
  readonly #onTooLarge: () => void;
  #bytes = 0;
  #isStopped = false;

  /** `keptBytes` of it are remembered, if it is no larger than that. */
  constructor(
    request: IncomingMessage,
    length: number | null,
    { maxBytes, keptBytes }: { readonly maxBytes: number; readonly keptBytes: number },
    onTooLarge: () => void,
  ) {
    this.#request = request;
    this.length = length;
    this.#maxBytes = maxBytes;
    this.#kept = new KeptBody(length !== null && length > keptBytes ? 0 : keptBytes);
    this.#onTooLarge = onTooLarge;
  }

  start(
    take: (bytes: Buffer, onSent?: () => void) => boolean,
    end: (trailers: readonly string[]) => void,
  ): void {
    const request = this.#request;
    request.on("data", (bytes: Buffer) => {
      if (this.#isStopped) return;
      this.#bytes += bytes.length;
      if (this.#bytes > this.#maxBytes) {
        this.stop();
        this.#onTooLarge();
        return;
      }
      this.#kept.add(bytes);
      const hasRoom = this.#kept.isTooLarge ? take(bytes, () => releaseBytes(bytes)) : take(bytes);
      if (!hasRoom) request.pause();
    });
    request.on("end", () => {
      if (!this.#isStopped) end(requestTrailers(request.rawTrailers));
    });
  }

  resume(): void {
    this.#request.resume();
  }

  /** What still comes is read away: the connection may carry another request. */
  stop(): void {
    this.#isStopped = true;
    this.#request.resume();
  }

  /** All of it, as far as it has come; null where it was larger than what is kept. */
  kept(): Buffer | null {
    return this.#request.complete && this.#bytes > 0 ? this.#kept.whole() : null;
  }
}
