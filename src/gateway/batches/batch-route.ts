import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { RememberedToken } from "../../identity/tokens.ts";
import type { App } from "../../model/app.ts";
import { Counts } from "../../kit/concurrency.ts";
import { AppError } from "../../model/errors.ts";
import { hasBatchEnded, type LineBatch } from "../../model/line-batch.ts";
import { RUN_ID } from "../../model/names.ts";
import { isCallerOf } from "../../model/run.ts";
import { countedRecord, countedRecords } from "../../runs/batches/counted-record.ts";
import { batchResults, OWN_FORM, type ResultParts, type ResultQuery } from "../../runs/batches/results.ts";
import { retryBatch } from "../../runs/batches/retry.ts";
import type { BatchFeeder } from "../../runs/batches/feeder.ts";
import type { BatchRecord } from "../../shapes/batches.ts";
import type { Store } from "../../store/store.ts";
import { type AppRequest, appUrl, beginTrace } from "../app-request.ts";
import { checkMayBatch } from "../authenticate.ts";
import type { BatchRoute } from "../route.ts";
import type { RunParts } from "../run-route.ts";
import { admitRun } from "../start-run.ts";
import type { UploadRouteParts } from "./upload-route.ts";

export type BatchParts = Pick<RunParts, "catalog" | "findApp" | "authenticator"> &
  Omit<ResultParts, "feeder" | "store"> &
  Omit<UploadRouteParts, "bodyRoom"> & {
    readonly store: Store;
    readonly batchFeeder: BatchFeeder;
  };

type HandlerParts = BatchParts & {
  /** Ends every wait at once. */
  readonly closing: AbortSignal;
};

type BatchRequest = AppRequest<BatchRoute> & { readonly app: App; readonly token: RememberedToken };

const LINES_HEAD = ["content-type", "application/jsonl", "cache-control", "no-cache"];
const PAGE = 50;
const MAX_PAGE = 100;
/** Of one account at once: each reads and stores up to a million lines. */
const MAX_RETRIES = 2;
const TOO_MANY = {
  message: `This account retries ${MAX_RETRIES} batches now; wait for one to be made.`,
  headers: { "retry-after": "5" },
};

/** `/v4/{project}/{app}/batches…`: reading, cancelling and retrying batches. Always requires a token. */
export class BatchHandler {
  readonly #parts: HandlerParts;
  /** Of each account. */
  readonly #retries = new Counts<string>();

  constructor(parts: HandlerParts) {
    this.#parts = parts;
  }

  async handle(request: AppRequest<BatchRoute>): Promise<void> {
    const { exchange, route } = request;
    const { catalog, findApp, authenticator } = this.#parts;
    const { projectId, appName: name } = route;
    const token = await authenticator.admit(request, "run");
    const app = catalog.find(projectId, name)?.app ?? (await findApp({ projectId, name }));
    if (!app) throw new AppError("app_not_found");
    const method = route.action === "cancel" || route.action === "retry" ? "POST" : "GET";
    if (exchange.request.method !== method)
      throw new AppError("method_not_allowed", { headers: { allow: method } });
    const asked = { ...request, app, token };
    if (route.action === "list") return await this.#list(asked);
    const batch = await this.#find(asked);
    switch (route.action) {
      case "record":
        return exchange.answerJson(200, await this.#record(app, batch));
      case "results":
        return await this.#results(asked, batch);
      case "cancel":
        return await this.#cancel(asked, batch);
      case "retry":
        return await this.#retry(asked, batch);
      default:
        return route.action satisfies never;
    }
  }

  async #find({ app, route, token }: BatchRequest): Promise<LineBatch> {
    const { role, caller } = token.principal;
    const batch = await this.#parts.store.lineBatches.find({
      appNumber: app.number,
      id: route.batchId ?? "",
    });
    if (!batch || (role === "call" && !isCallerOf(caller, batch))) throw new AppError("batch_not_found");
    return batch;
  }

  async #record(app: App, batch: LineBatch): Promise<BatchRecord> {
    return await countedRecord(this.#parts, batch, app, this.#parts.steadyClock.now());
  }

  async #list({ exchange, app, route, token }: BatchRequest): Promise<void> {
    const query = new URLSearchParams(route.query);
    const limit = Math.max(1, readNumber(query, "pageSize", PAGE, MAX_PAGE));
    const before = query.get("nextToken") ?? "";
    if (before !== "" && !RUN_ID.test(before))
      throw new AppError("bad_request", { message: "nextToken does not belong to this list." });
    const { role, caller } = token.principal;
    const batches = await this.#parts.store.lineBatches.list({
      appNumber: app.number,
      limit: limit + 1,
      ...(before !== "" && { before }),
      ...(role === "call" && { caller }),
    });
    const page = batches.slice(0, limit);
    const items = await countedRecords(this.#parts, page, app, this.#parts.steadyClock.now());
    const nextToken = batches.length > page.length ? (page.at(-1)?.id ?? "") : "";
    exchange.answerJson(200, { items, nextToken });
  }

  async #results(request: BatchRequest, batch: LineBatch): Promise<void> {
    const { exchange, route, token } = request;
    const { authenticator, closing, batchFeeder: feeder, log } = this.#parts;
    const query = readResultQuery(route.query);
    const gone = new AbortController();
    exchange.goneListener = { onGone: () => gone.abort() };
    authenticator.hold(request, "run", token, () => exchange.drop());
    exchange.open(200, [...LINES_HEAD], null);
    exchange.noteBegun();
    const signal = AbortSignal.any([gone.signal, closing]);
    const lines = batchResults({ ...this.#parts, feeder }, batch, query, OWN_FORM, signal);
    // If it fails on the way, or the service stops, the connection ends without a proper end.
    const whole = async function* (): AsyncGenerator<Buffer> {
      yield* lines;
      if (closing.aborted) throw new AppError("draining");
    };
    const source = Readable.from(whole(), { objectMode: false });
    await pipeline(source, exchange.response).catch((error: unknown) => {
      // Otherwise the reader has left.
      if (error instanceof AppError)
        log.warn({ err: error, batch: batch.id }, "results of a batch broke off");
    });
    gone.abort();
  }

  async #cancel({ exchange, app }: BatchRequest, batch: LineBatch): Promise<void> {
    if (!(await this.#parts.batchFeeder.cancel(batch))) throw new AppError("batch_finished");
    const changed = await this.#parts.store.lineBatches.find(batch);
    exchange.answerJson(202, await this.#record(app, changed ?? batch));
  }

  async #retry(request: BatchRequest, batch: LineBatch): Promise<void> {
    const { exchange, app, route, token } = request;
    const { catalog, publicApiUrl, batchFeeder, submitter, tracer, clock } = this.#parts;
    const live = catalog.find(route.projectId, route.appName);
    if (!live) throw new AppError("app_not_found");
    if (!hasBatchEnded(batch.state)) throw new AppError("batch_unfinished");
    checkMayBatch(token);
    admitRun({ route, token }, this.#parts);
    submitter.checkOpen(app.number);
    const { id, callerAddress: ip } = exchange;
    const { maxBodyBytes: maxInputBytes } = live.version.config.limits;
    const parts = { ...this.#parts, onStarted: () => batchFeeder.wake() };
    const { caller } = token.principal;
    const trace = beginTrace(tracer, request, true);
    const startMs = clock.now();
    if (this.#retries.of(caller.accountId) >= MAX_RETRIES) throw new AppError("too_many_in_flight", TOO_MANY);
    const made = await this.#retries.during(
      caller.accountId,
      async () => await retryBatch(parts, batch, { id, ip, ...caller, trace, maxInputBytes }),
    );
    tracer.uploaded(made, live.target, startMs);
    const location = `${appUrl(exchange, route, publicApiUrl)}/batches/${made.id}`;
    exchange.answerJson(202, await this.#record(app, made), { location });
  }
}

function readResultQuery(text: string): ResultQuery {
  const query = new URLSearchParams(text);
  const order = query.get("order") ?? "input";
  if (order !== "input" && order !== "finished")
    throw new AppError("bad_request", { message: "order must be input or finished." });
  const wait = query.get("wait") ?? "false";
  if (wait !== "true" && wait !== "false")
    throw new AppError("bad_request", { message: "wait must be true or false." });
  // The first line has the index 0, and none of them has ended before the first.
  const none = order === "input" ? -1 : 0;
  return { order, after: readNumber(query, "after", none), isFollowing: wait === "true" };
}

function readNumber(
  query: URLSearchParams,
  name: string,
  otherwise: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const text = query.get(name);
  if (text === null) return otherwise;
  if (!/^\d{1,15}$/.test(text))
    throw new AppError("bad_request", { message: `${name} must be a whole number.` });
  return Math.min(Number(text), most);
}
