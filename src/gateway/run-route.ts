import type { Catalog, LiveApp } from "../apps/catalog.ts";
import { AppError } from "../model/errors.ts";
import type { Executor } from "../runs/execute.ts";
import type { Authenticator } from "./authenticate.ts";
import { checkJson } from "./check-json.ts";
import type { JsonFault } from "./check-json-fault.ts";
import { OFF_THREAD_BYTES, checkJsonOffThread } from "./check-json-off-thread.ts";
import type { Exchange } from "./exchange.ts";
import { readQuery } from "./query.ts";
import { checkBodyHead, hasBody, readBody } from "./read-body.ts";
import type { RequestHead } from "./request-head.ts";
import type { RunRoute } from "./route.ts";

export type RunParts = {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  readonly executor: Executor;
};

/**
 * `POST /v4/{project}/{app}/{function}`: the checks in the order the contract lists them, then the run. A
 * promise only where something has to be waited for: on a warm path the call leaves in the same tick.
 */
export function handleRun(
  parts: RunParts,
  exchange: Exchange,
  head: RequestHead,
  route: RunRoute,
): void | Promise<void> {
  const { catalog, authenticator } = parts;
  const live = catalog.find(route.projectId, route.appName);
  if (!live?.version.config.deployment.disableAuth) {
    const admitted = authenticator.admit(exchange.request.socket, head.authorization, route.projectId);
    if (admitted) return admitted.then(() => admit(parts, exchange, head, route, live));
  }
  return admit(parts, exchange, head, route, live);
}

function admit(
  parts: RunParts,
  exchange: Exchange,
  head: RequestHead,
  route: RunRoute,
  live: LiveApp | undefined,
): void {
  if (!live) throw new AppError("app_not_found");
  if (parts.catalog.hasFunction(live, route.functionName) === false) throw new AppError("function_not_found");
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
    run(parts, exchange, head, route, live, Buffer.alloc(0));
    return;
  }
  if (head.isHeldBack) exchange.response.writeContinue();
  readBody(exchange.request, maxBodyBytes, (error, body) => {
    if (error) exchange.fail(error);
    else exchange.attempt(() => check(parts, exchange, head, route, live, body));
  });
}

function check(
  parts: RunParts,
  exchange: Exchange,
  head: RequestHead,
  route: RunRoute,
  live: LiveApp,
  body: Buffer,
): void | Promise<void> {
  const conclude = (fault: JsonFault | null): void => {
    if (fault) throw new AppError("invalid_json", { message: fault.message });
    run(parts, exchange, head, route, live, body);
  };
  if (body.length > OFF_THREAD_BYTES) return checkJsonOffThread(body).then(conclude);
  conclude(body.length === 0 ? null : checkJson(body));
  return undefined;
}

function run(
  { executor }: RunParts,
  exchange: Exchange,
  head: RequestHead,
  { functionName, isBare }: RunRoute,
  { app, version, pool }: LiveApp,
  body: Buffer,
): void {
  const { response, request, id } = exchange;
  if (response.destroyed) return;
  const target = { appNumber: app.number, versionId: version.id, pool };
  const ip = request.socket.remoteAddress ?? null;
  const live = executor.execute({ id, target, functionName, body, isBare, ip }, (answer, timing) =>
    exchange.answer(answer, timing),
  );
  response.on("close", () => {
    if (response.writableFinished) return;
    if (head.xDisconnect === "cancel") live.cancel();
    else live.forsake();
  });
}
