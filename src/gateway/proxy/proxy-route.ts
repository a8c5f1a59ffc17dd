import type { LiveApp } from "../../apps/catalog.ts";
import type { AddressRanges } from "../../kit/ip-addresses.ts";
import type { IncomingMessage } from "node:http";
import type { RememberedToken } from "../../identity/tokens.ts";
import { KeptBody, releaseBytes } from "../../kit/bytes.ts";
import type { CustomRuntimeConfig } from "../../model/app-config.ts";
import { AppError } from "../../model/errors.ts";
import { type HttpRequest, packBody, pathName } from "../../model/http-request.ts";
import type { RunRequest, ServerRequest, Webhook } from "../../runs/live-run.ts";
import type { Tracer } from "../../runs/traces/tracer.ts";
import { storedRequest } from "../../runs/ended-run.ts";
import { answerAccepted, appPath, type AppRequest, beginTrace } from "../app-request.ts";
import { hasBody, readBody, tooLarge } from "../body.ts";
import type { Fairness } from "../../model/queue-limits.ts";
import { fairnessOf } from "../fairness.ts";
import { admitRun, readTerms, readWebhook, type StarterParts } from "../start-run.ts";
import { type AppRoute, readTarget } from "../route.ts";
import { SERVER_PREFIX } from "../../model/wishes.ts";
import { ProxyAnswer } from "./proxy-answer.ts";
import { pathBelow, requestHeaders, requestTrailers } from "./headers.ts";
import type { BodySource } from "../../replicas/call.ts";

export type ProxyParts = StarterParts & { readonly trusted: AddressRanges };

/** A request that the app's server may get. */
export type ServerCall = AppRequest & {
  /** Path and query as the server gets them. */
  readonly target: string;
  /** Null for a public app. */
  readonly token: RememberedToken | null;
  /** In whose line it waits. */
  readonly fairness: Fairness | null;
  readonly live: LiveApp;
  readonly runtime: CustomRuntimeConfig;
  readonly webhook: Webhook | null;
};

const NO_BODY = Buffer.alloc(0);
/** How much is stored of a body that a caller waited for, as with functions; a body up to this size is read at once. */
const LITTLE_BYTES = 64 * 1024;

/** A server app's addresses: the checks in the contract's order, then the run. Paths and queries stay as they came. */
export class ProxyHandler {
  readonly #parts: ProxyParts;

  constructor(parts: ProxyParts) {
    this.#parts = parts;
  }

  isServer({ projectId, appName }: AppRoute): boolean {
    return this.#parts.catalog.isServer(projectId, appName);
  }

  /** Whether it has batches of its own, and not those of the service. */
  hasOwnBatches(route: AppRoute): boolean {
    if (!this.isServer(route)) return false;
    const live = this.#parts.catalog.find(route.projectId, route.appName);
    return !live?.version.config.batches?.openai;
  }

  /** Handles an address that is no function's: only a server app may have it. */
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
    throw await whyAbsent(request.route);
  }

  handle(request: AppRequest, live: LiveApp): void | Promise<void> {
    // A public server may use tokens of its own, so the Authorization header is not checked.
    if (live.version.config.deployment.disableAuth) return this.#admit(request, live, null);
    const admitted = this.#parts.authenticator.admit(request, "server");
    if (admitted instanceof Promise) return admitted.then((token) => this.#admit(request, live, token));
    return this.#admit(request, live, admitted);
  }

  #admit(request: AppRequest, live: LiveApp, token: RememberedToken | null): void | Promise<void> {
    const { exchange, head, route } = request;
    const { customRuntime: runtime, limits } = live.version.config;
    if (!runtime) throw new AppError("not_found");
    const fairness = fairnessOf(head, token);
    const { url = "", method = "GET" } = exchange.request;
    const { target, query } = readTarget(pathBelow(url, appPath(exchange, route)), method);
    if (head.contentLength !== null && Number(head.contentLength) > limits.maxBodyBytes)
      throw tooLarge(limits.maxBodyBytes);
    const webhook = readWebhook(exchange, query.webhookEndpoint, this.#parts);
    const call: ServerCall = { ...request, token, fairness, live, runtime, target, webhook };
    if (query.isAsync) return this.#read(call, (body) => this.#submit(call, body));
    if (!hasBody(head)) return this.#execute(call, NO_BODY);
    if (head.isChunked || Number(head.contentLength) > LITTLE_BYTES) return this.#stream(call);
    return this.#read(call, (body) => this.#execute(call, body));
  }

  #read(call: ServerCall, go: (body: Buffer) => void | Promise<void>): void {
    const { exchange, head, route, live } = call;
    if (!hasBody(head)) return exchange.attempt(() => go(NO_BODY));
    if (head.isHeldBack) exchange.response.writeContinue();
    const room = () => this.#parts.bodyRoom.open(route.projectId, exchange);
    readBody(exchange.request, live.version.config.limits.maxBodyBytes, room, (error, body) => {
      if (error) exchange.fail(error);
      else exchange.attempt(() => this.#confirmed(call, () => go(body)));
    });
  }

  /** The token may have expired while the body arrived. */
  #confirmed(call: ServerCall, go: () => void | Promise<void>): void | Promise<void> {
    const { token } = call;
    const confirming = token ? this.#parts.authenticator.confirm(call, "server", token) : undefined;
    return confirming ? confirming.then(go) : go();
  }

  async #submit(call: ServerCall, body: Buffer): Promise<void> {
    const head = this.#headOf(call, { isStored: true, passExpect: false });
    const http = storedRequest(head, body, call.live.version.config.limits);
    const { url = "" } = call.exchange.request;
    const query = url.slice(url.indexOf("?") + 1);
    const terms = readTerms(call, query, SERVER_PREFIX, this.#parts.steadyClock);
    admitRun(call, this.#parts);
    const { submitter, tracer, clock, publicApiUrl } = this.#parts;
    const startMs = clock.now();
    const run: RunRequest = { ...serverRun(call, http, tracer), terms };
    await submitter.submit(run);
    answerAccepted(call, publicApiUrl, call.exchange.id);
    if (run.trace) tracer.accepted(run, startMs);
  }

  #execute(call: ServerCall, body: Buffer): void | Promise<void> {
    const head = this.#headOf(call, { isStored: false, passExpect: false });
    return this.#start(call, { ...head, ...keepOf(call), body, input: () => packBody(head, body) });
  }

  /** Passes a body that is large, or of unknown length, to the server as it arrives. */
  #stream(call: ServerCall): void | Promise<void> {
    const { exchange, head: given, live } = call;
    const { maxBodyBytes } = live.version.config.limits;
    const head = this.#headOf(call, { isStored: false, passExpect: given.isHeldBack });
    const length = given.isChunked ? null : Number(given.contentLength);
    const limits = { maxBytes: maxBodyBytes, keptBytes: keepOf(call).keptBytes };
    const body = new ProxyBody(exchange.request, length, limits, () =>
      exchange.breakOff(tooLarge(maxBodyBytes)),
    );
    const input = (): Buffer | null => {
      const kept = body.kept();
      return kept && packBody(head, kept);
    };
    return this.#start(call, { ...head, ...keepOf(call), body, input });
  }

  #start(call: ServerCall, http: ServerRequest): void | Promise<void> {
    const { exchange, token, live, webhook } = call;
    const { executor, submitter, authenticator, clock, tracer } = this.#parts;
    if (exchange.response.destroyed) return undefined;
    admitRun(call, this.#parts);
    const run = serverRun(call, http, tracer);
    const { streamStallTimeoutSeconds } = live.version.config.limits;
    const hold = token && ((end: () => void) => authenticator.hold(call, "server", token, end));
    const answer = new ProxyAnswer(exchange, clock, streamStallTimeoutSeconds, hold);
    // A webhook waits for the result, so the run has to survive a crash.
    if (webhook) return submitter.executeKept(run, answer).then((started) => answer.attach(started));
    answer.attach(executor.execute(run, answer));
    return undefined;
  }

  #headOf(call: ServerCall, how: { readonly isStored: boolean; readonly passExpect: boolean }): HttpRequest {
    return serverHead(call, { ...how, trusted: this.#parts.trusted });
  }
}

/** The run of a request to a server app. */
export function serverRun(call: ServerCall, http: ServerRequest, tracer: Pick<Tracer, "begin">): RunRequest {
  const { exchange, token, fairness, live, target, webhook } = call;
  return {
    id: exchange.id,
    target: live.target,
    functionName: pathName(target),
    body: NO_BODY,
    isBare: true,
    ip: exchange.callerAddress,
    caller: token && token.principal.caller,
    fairness,
    webhook,
    trace: beginTrace(tracer, call, token !== null),
    http,
  };
}

/** The head of a request as the server gets it. */
export function serverHead(
  { exchange, head, route, runtime, target }: ServerCall,
  how: { readonly isStored: boolean; readonly passExpect: boolean; readonly trusted: AddressRanges },
): HttpRequest {
  const { request, remote, id: runId } = exchange;
  const { passAuthorization } = runtime;
  const by = { ...how, runId, prefix: appPath(exchange, route), remote, passAuthorization };
  return { method: request.method ?? "GET", target, headers: requestHeaders(request, head, by) };
}

/** How much of the answer is kept: all of it for a webhook, else as much as of a function's. */
function keepOf({ live, webhook }: ServerCall): { readonly keptBytes: number; readonly mustKeep: boolean } {
  const { limits, deployment } = live.version.config;
  if (webhook) return { keptBytes: limits.maxResultBytes, mustKeep: true };
  return { keptBytes: deployment.recordPayloads === "all" ? LITTLE_BYTES : 0, mustKeep: false };
}

/** A request's body, read as fast as the server takes it and never more than `maxBytes`. */
class ProxyBody implements BodySource {
  readonly length: number | null;
  readonly #request: IncomingMessage;
  readonly #maxBytes: number;
  readonly #kept: KeptBody;
  readonly #onTooLarge: () => void;
  #bytes = 0;
  #isStopped = false;

  /** Remembers the body if it has at most `keptBytes`. */
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

  /** Discards the rest, because the connection may carry another request. */
  stop(): void {
    this.#isStopped = true;
    this.#request.resume();
  }

  /** The whole body as received; null if it was larger than `keptBytes`. */
  kept(): Buffer | null {
    return this.#request.complete && this.#bytes > 0 ? this.#kept.whole() : null;
  }
}
