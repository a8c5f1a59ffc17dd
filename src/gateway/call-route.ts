import type { LiveApp } from "../apps/catalog.ts";
import type { RememberedToken } from "../identity/tokens.ts";
import { checkJson, type JsonFault } from "../kit/json/check-json.ts";
import { checkJsonOffThread, OFF_THREAD_BYTES } from "./json/off-thread.ts";
import { type CallRoute, readQuery } from "./route.ts";
import { AppError } from "../model/errors.ts";
import type { AppParts, AppRequest, CheckedCall } from "./app-request.ts";
import { type BodyRoom, checkBodyHead, hasBody, readBody } from "./body.ts";
import { fairnessOf } from "./fairness.ts";
import type { ProxyHandler } from "./proxy/proxy-route.ts";
import type { RunStarter } from "./start-run.ts";

type CallParts = AppParts & {
  readonly starter: RunStarter;
  readonly bodyRoom: BodyRoom;
  readonly proxy: ProxyHandler;
};

type CallRequest = AppRequest<CallRoute>;

const NO_BODY = Buffer.alloc(0);

/** The checks of a call in the contract's order, then the run. On a warm path the call leaves in the same tick. */
export class CallHandler {
  readonly #parts: CallParts;

  constructor(parts: CallParts) {
    this.#parts = parts;
  }

  handle(call: CallRequest): void | Promise<void> {
    const { catalog, authenticator, proxy } = this.#parts;
    const live = catalog.find(call.route.projectId, call.route.appName);
    if (live?.version.config.customRuntime) return proxy.handle(call, live);
    if (live?.version.config.deployment.disableAuth) {
      if (call.head.authorization === null) return this.#admit(call, live, null);
      return this.#recognize(call).then((token) => this.#admit(call, live, token));
    }
    const admitted = authenticator.admit(call, "function");
    if (admitted instanceof Promise) return admitted.then((token) => this.#admit(call, live, token));
    return this.#admit(call, live, admitted);
  }

  /** A public app's caller: with a valid token the run is its holder's; an invalid one counts as none. */
  async #recognize(call: CallRequest): Promise<RememberedToken | null> {
    try {
      return await this.#parts.authenticator.admit(call, "public");
    } catch (error) {
      // Without a key nothing depends on the caller's identity, so the call does not need the database.
      const mayGoOn = call.head.idempotencyKey === null || (error instanceof AppError && error.status < 500);
      if (mayGoOn) return null;
      throw error;
    }
  }

  #admit(call: CallRequest, live: LiveApp | undefined, token: RememberedToken | null): void | Promise<void> {
    const { connection, exchange, head, route } = call;
    const { catalog, starter, bodyRoom } = this.#parts;
    const fairness = fairnessOf(head, token);
    if (!live) return this.#refuse(route);
    catalog.requireFunction(live, route.functionName);
    const { method } = exchange.request;
    if (method === "GET" && route.isModels) return this.#listModels(call, live);
    if (method !== "POST") throw wrongMethod(route);
    const { maxBodyBytes } = live.version.config.limits;
    checkBodyHead(head, maxBodyBytes);
    const query = readQuery(route.query);
    const checked: CheckedCall = { connection, exchange, head, route, live, query, token, fairness };
    if (!hasBody(head)) return starter.start(checked, NO_BODY, []);
    if (head.isHeldBack) exchange.response.writeContinue();
    const room = () => bodyRoom.open(route.projectId, exchange);
    readBody(exchange.request, maxBodyBytes, room, (error, body) => {
      if (error) exchange.fail(error);
      else exchange.attempt(() => this.#confirm(checked, body));
    });
    return undefined;
  }

  /** Starts a replica if the app has never run, to know whether it has the function. */
  async #listModels({ exchange, route }: CallRequest, live: LiveApp): Promise<void> {
    await this.#parts.catalog.signature(live, route.functionName);
    exchange.answerJson(200, modelsOf(live));
  }

  async #refuse(route: CallRoute): Promise<never> {
    throw await this.#parts.whyAbsent(route);
  }

  /** The token may have expired while the body arrived. */
  #confirm(call: CheckedCall, body: Buffer): void | Promise<void> {
    const { token, live } = call;
    const isPublic = live.version.config.deployment.disableAuth;
    const { authenticator } = this.#parts;
    const confirming = token && !isPublic ? authenticator.confirm(call, "function", token) : undefined;
    return confirming ? confirming.then(() => this.#check(call, body)) : this.#check(call, body);
  }

  #check(call: CheckedCall, body: Buffer): void | Promise<void> {
    const conclude = (fault: JsonFault | null, names: readonly string[] | null): void | Promise<void> => {
      if (fault) throw new AppError("invalid_json", { message: fault.message });
      return this.#parts.starter.start(call, body, names);
    };
    if (body.length > OFF_THREAD_BYTES)
      return checkJsonOffThread(body).then(({ fault, names }) => conclude(fault, names));
    return conclude(body.length === 0 ? null : checkJson(body), null);
  }
}

/** The list of models that OpenAI's clients request before a call: one model, named like the app. */
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
