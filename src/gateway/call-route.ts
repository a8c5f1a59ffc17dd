import type { Catalog, LiveApp } from "../apps/catalog.ts";
import { AppError } from "../model/errors.ts";
import type { Executor } from "../runs/execute.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Connection } from "./connection.ts";
import type { Exchange } from "./exchange.ts";
import { checkJson } from "./json/check-json.ts";
import type { JsonFault } from "./json/fault.ts";
import { OFF_THREAD_BYTES, checkJsonOffThread } from "./json/off-thread.ts";
import { readQuery } from "./query.ts";
import { RunAnswer } from "./run-answer.ts";
import { checkBodyHead, hasBody, readBody } from "./read-body.ts";
import type { RequestHead } from "./request-head.ts";
import type { CallRoute } from "./route.ts";

export type CallParts = {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  readonly executor: Executor;
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
 * `POST /v4/{project}/{app}/{function}`: the checks in the order the contract lists them, then the run. A
 * promise only where something has to be waited for: on a warm path the call leaves in the same tick.
 */
export class CallHandler {
  readonly #catalog: Catalog;
  readonly #authenticator: Authenticator;
  readonly #executor: Executor;

  constructor({ catalog, authenticator, executor }: CallParts) {
    this.#catalog = catalog;
    this.#authenticator = authenticator;
    this.#executor = executor;
  }

  handle(call: CallRequest): void | Promise<void> {
    const { connection, head, route } = call;
    const live = this.#catalog.find(route.projectId, route.appName);
    if (!live?.version.config.deployment.disableAuth) {
      const admitted = this.#authenticator.admit(connection, head.authorization, route.projectId);
      if (admitted) return admitted.then(() => this.#admit(call, live));
    }
    return this.#admit(call, live);
  }

  #admit(call: CallRequest, live: LiveApp | undefined): void {
    const { exchange, head, route } = call;
    if (!live) throw new AppError("app_not_found");
    if (this.#catalog.hasFunction(live, route.functionName) === false) {
      throw new AppError("function_not_found");
    }
    if (exchange.request.method !== "POST") {
      throw new AppError("method_not_allowed", { headers: { allow: "POST" } });
    }
    const { maxBodyBytes } = live.version.config.limits;
    checkBodyHead(head, maxBodyBytes);
    const { isAsync, webhookEndpoint } = readQuery(route.query);
    if (isAsync || webhookEndpoint !== null) {
      throw new AppError("not_available", { message: "This release has no async runs and no webhooks yet." });
    }
    if (!hasBody(head)) {
      this.#run(call, live, NO_BODY);
      return;
    }
    if (head.isHeldBack) exchange.response.writeContinue();
    readBody(exchange.request, maxBodyBytes, (error, body) => {
      if (error) exchange.fail(error);
      else exchange.attempt(() => this.#check(call, live, body));
    });
  }

  #check(call: CallRequest, live: LiveApp, body: Buffer): void | Promise<void> {
    const conclude = (fault: JsonFault | null): void => {
      if (fault) throw new AppError("invalid_json", { message: fault.message });
      this.#run(call, live, body);
    };
    if (body.length > OFF_THREAD_BYTES) return checkJsonOffThread(body).then(conclude);
    conclude(body.length === 0 ? null : checkJson(body));
    return undefined;
  }

  #run({ exchange, head, route }: CallRequest, live: LiveApp, body: Buffer): void {
    const { app, version, pool } = live;
    const { response, request, id } = exchange;
    if (response.destroyed) return;
    const target = { appNumber: app.number, versionId: version.id, pool };
    const ip = request.socket.remoteAddress ?? null;
    const { functionName, isBare } = route;
    const answer = new RunAnswer(exchange, head, live);
    answer.follow(this.#executor.execute({ id, target, functionName, body, isBare, ip }, answer));
  }
}
