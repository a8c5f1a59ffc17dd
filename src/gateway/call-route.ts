import type { Catalog, LiveApp } from "../apps/catalog.ts";
import type { RememberedToken } from "../identity/tokens.ts";
import { AppError } from "../model/errors.ts";
import type { Authenticator } from "./authenticate.ts";
import type { BodyReservation, BodyRoom } from "./body.ts";
import type { Connection } from "./connection.ts";
import type { Exchange } from "./exchange.ts";
import { checkJson } from "../kit/json/check-json.ts";
import type { JsonFault } from "../kit/json/check-json.ts";
import { OFF_THREAD_BYTES, checkJsonOffThread } from "./json/off-thread.ts";
import { readQuery } from "./route.ts";
import { checkBodyHead, hasBody, readBody } from "./body.ts";
import type { RequestHead } from "./request-head.ts";
import type { CallRoute } from "./route.ts";
import type { ProxyHandler } from "./proxy/proxy-route.ts";
import type { CheckedCall, WhyAbsent } from "./app-request.ts";
import type { RunStarter } from "./start-run.ts";

export type CallParts = {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  readonly starter: RunStarter;
  readonly bodyRoom: BodyRoom;
  readonly whyAbsent: WhyAbsent;
  readonly proxy: ProxyHandler;
};

/** A request for a run, as far as its head tells. */
type CallRequest = {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: CallRoute;
};

const NO_BODY = Buffer.alloc(0);

/**
 * `POST /v4/{project}/{app}/{function}`: the checks in the order the contract lists them, then the run. Returns
 * a promise only if something has to be awaited: on a warm path the call leaves in the same tick.
 */
export class CallHandler {
  readonly #catalog: Catalog;
  readonly #authenticator: Authenticator;
  readonly #starter: RunStarter;
  readonly #bodyRoom: BodyRoom;
  readonly #whyAbsent: WhyAbsent;
  readonly #proxy: ProxyHandler;

  constructor({ catalog, authenticator, starter, bodyRoom, whyAbsent, proxy }: CallParts) {
    this.#proxy = proxy;
    this.#catalog = catalog;
    this.#authenticator = authenticator;
    this.#starter = starter;
    this.#bodyRoom = bodyRoom;
    this.#whyAbsent = whyAbsent;
  }

  handle(call: CallRequest): void | Promise<void> {
    const { route } = call;
    const live = this.#catalog.find(route.projectId, route.appName);
    if (live?.version.config.customRuntime) return this.#proxy.handle(call, live);
    if (live?.version.config.deployment.disableAuth) return this.#welcome(call, live);
    const admitted = this.#authenticator.admit(call, "function");
    if (admitted instanceof Promise) return admitted.then((token) => this.#admit(call, live, token));
    return this.#admit(call, live, admitted);
  }

  /**
   * Anyone may call a public app. With a valid token the run is its holder's, and may have an Idempotency-Key; an invalid
   * one counts as none.
   */
  #welcome(call: CallRequest, live: LiveApp): void | Promise<void> {
    if (call.head.authorization === null) return this.#admit(call, live, null);
    return this.#recognize(call).then((token) => this.#admit(call, live, token));
  }

  async #recognize(call: CallRequest): Promise<RememberedToken | null> {
    try {
      return await this.#authenticator.admit(call, "public");
    } catch (error) {
      // Without a key nothing depends on whose call it is, and it does not wait for a database that is away.
      const mayGoOn = call.head.idempotencyKey === null || (error instanceof AppError && error.status < 500);
      if (mayGoOn) return null;
      throw error;
    }
  }

  #admit(call: CallRequest, live: LiveApp | undefined, token: RememberedToken | null): void | Promise<void> {
    const { exchange, head, route } = call;
    if (!live) return this.#refuse(route);
    this.#catalog.requireFunction(live, route.functionName);
    const { method } = exchange.request;
    if (method === "GET" && route.isModels) return this.#listModels(call, live);
    if (method !== "POST") throw wrongMethod(route);
    const { maxBodyBytes } = live.version.config.limits;
    checkBodyHead(head, maxBodyBytes);
    const admitted: CheckedCall = { exchange, head, route, live, query: readQuery(route.query), token };
    if (!hasBody(head)) return this.#starter.start(admitted, NO_BODY, []);
    if (head.isHeldBack) exchange.response.writeContinue();
    const room = (): BodyReservation => this.#bodyRoom.open(route.projectId, exchange);
    readBody(exchange.request, maxBodyBytes, room, (error, body) => {
      if (error) exchange.fail(error);
      else exchange.attempt(() => this.#confirm(admitted, body));
    });
    return undefined;
  }

  /** An app that never ran is started, to tell whether it has the function. */
  async #listModels({ exchange, route }: CallRequest, live: LiveApp): Promise<void> {
    await this.#catalog.signature(live, route.functionName);
    exchange.answerJson(200, modelsOf(live));
  }

  async #refuse({ projectId, appName: name }: CallRoute): Promise<never> {
    throw await this.#whyAbsent({ projectId, name });
  }

  /** The body may have taken longer than the token lasted. */
  #confirm(call: CheckedCall, body: Buffer): void | Promise<void> {
    const { token, live } = call;
    const isPublic = live.version.config.deployment.disableAuth;
    const confirming = token && !isPublic ? this.#authenticator.confirm(call, "function", token) : undefined;
    return confirming ? confirming.then(() => this.#check(call, body)) : this.#check(call, body);
  }

  #check(call: CheckedCall, body: Buffer): void | Promise<void> {
    const conclude = (fault: JsonFault | null, names: readonly string[] | null): void | Promise<void> => {
      if (fault) throw new AppError("invalid_json", { message: fault.message });
      return this.#starter.start(call, body, names);
    };
    if (body.length > OFF_THREAD_BYTES) {
      return checkJsonOffThread(body).then(({ fault, names }) => conclude(fault, names));
    }
    return conclude(body.length === 0 ? null : checkJson(body), null);
  }
}

/** An app as the list of models that OpenAI's clients ask for before they call it: one, named like the app. */
function modelsOf({ app, version }: LiveApp): object {
  const created = Math.floor(version.createdAt / 1000);
  return { object: "list", data: [{ id: app.name, object: "model", created, owned_by: app.projectId }] };
}

function wrongMethod({ functionName, isModels }: CallRoute): AppError {
  const message =
    `Call ${functionName} with POST and its arguments as a JSON object, such as ` +
    `curl -X POST URL -H 'Authorization: Bearer TOKEN' -H 'Content-Type: application/json' -d '{}'. ` +
    "GET …/openapi.json lists the app's functions and their arguments.";
  return new AppError("method_not_allowed", { message, headers: { allow: isModels ? "GET, POST" : "POST" } });
}
