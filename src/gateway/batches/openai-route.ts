import { hash } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import * as z from "zod/mini";
import type { LiveApp } from "../../apps/catalog.ts";
import type { RememberedToken } from "../../identity/tokens.ts";
import { Counts } from "../../kit/concurrency.ts";
import { LineCutter } from "../../kit/line-cutter.ts";
import { AppError } from "../../model/errors.ts";
import { hasBatchEnded, type LineBatch } from "../../model/line-batch.ts";
import { isCallerOf, type Run } from "../../model/run.ts";
import type { BatchFeeder } from "../../runs/batches/feeder.ts";
import { lineOfRequest, type RequestFault } from "../../runs/batches/openai-lines.ts";
import { BATCH_KEY_MS, BatchUpload, LINE_EXTRA_BYTES } from "../../runs/batches/upload.ts";
import type { BatchFile, OpenAiBatch } from "../../store/batches/openai-batches.ts";
import { type AppRequest, beginTrace } from "../app-request.ts";
import { checkMayBatch } from "../authenticate.ts";
import { fairnessOf } from "../fairness.ts";
import type { CallRoute } from "../route.ts";
import { admitRun, keyHashOf, readAsked } from "../start-run.ts";
import { type BatchDetails, batchObject, fileId, fileObject } from "./openai-objects.ts";
import { listObject, readBatchId, readFileId, resultFileObject } from "./openai-objects.ts";
import { fileBytes, type FileParts, type OpenAiCall, resultBytes, uploadFile } from "./openai-files.ts";

type OpenAiParts = Omit<FileParts, "feeder"> & {
  readonly batchFeeder: BatchFeeder;
  readonly closing: AbortSignal;
};

/** As of OpenAI. */
const MAX_REQUESTS = 50_000;
const MAX_FAULTS = 100;
const MAX_BODY_BYTES = 64 * 1024;
/** How long a batch is known: as long as its lines. */
const KEPT_MS = 31 * 24 * 3600 * 1000;
/** Uploads and new batches of one account at once. */
const MAX_OPEN = 8;
const TOO_MANY = {
  message: `This account uploads ${MAX_OPEN} files or batches now; wait for one to finish.`,
  headers: { "retry-after": "5" },
};
const ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];
const TOO_LONG = { code: "line_too_long", param: null, message: "The line is longer than max_body." };
const PAGE = 20;
const REPLAYED = { "idempotent-replayed": "true" };
const BYTES = ["content-type", "application/octet-stream"];
const BATCH = z.object({
  input_file_id: z.string().check(z.maxLength(100)),
  endpoint: z.enum(ENDPOINTS),
  completion_window: z.literal("24h"),
  metadata: z.optional(
    z.nullable(
      z
        .record(z.string().check(z.maxLength(64)), z.string().check(z.maxLength(512)))
        .check(z.refine((pairs) => Object.keys(pairs).length <= 16)),
    ),
  ),
});

/** OpenAI's Batch API below a function, `…/files` and `…/batches`, also with `v1/`; of a server app, below `/v1/`. */
export class OpenAiBatches {
  readonly #parts: OpenAiParts & FileParts;
  /** What each account uploads, or has checked. */
  readonly #open = new Counts<string>();

  constructor(parts: OpenAiParts) {
    this.#parts = { ...parts, feeder: parts.batchFeeder };
  }

  async handle(request: AppRequest<CallRoute>, live: LiveApp, token: RememberedToken | null): Promise<void> {
    if (!token) throw new AppError("unauthorized", { headers: { "www-authenticate": "Bearer" } });
    const { exchange, route } = request;
    const { what = "files", id = null, action = null } = route.openAi ?? {};
    const use = live.version.config.customRuntime ? ("server" as const) : ("function" as const);
    const call = { ...request, live, token, use };
    const method = String(exchange.request.method);
    switch (`${method} ${what}${id === null ? "" : "/id"}${action === null ? "" : `/${action}`}`) {
      case "POST files":
        return await this.#during(call, async () =>
          exchange.answerJson(200, fileObject(await uploadFile(this.#parts, call))),
        );
      case "GET files":
        return await this.#listFiles(call);
      case "GET files/id":
        return exchange.answerJson(200, await this.#file(call, id!));
      case "GET files/id/content":
        return await this.#content(call, id!);
      case "DELETE files/id":
        return await this.#deleteFile(call, id!);
      case "POST batches":
        checkMayBatch(token);
        admitRun({ route, token }, this.#parts);
        return await this.#during(call, async () => await this.#create(call));
      case "GET batches":
        return await this.#listBatches(call);
      case "GET batches/id":
        return exchange.answerJson(200, await this.#batch(call, id!));
      case "POST batches/id/cancel":
        return await this.#cancel(call, id!);
      default:
        throw new AppError("method_not_allowed", { headers: { allow: "GET, POST, DELETE" } });
    }
  }

  async #during({ token }: OpenAiCall, work: () => Promise<void>): Promise<void> {
    const { accountId } = token.principal.caller;
    if (this.#open.of(accountId) >= MAX_OPEN) throw new AppError("too_many_in_flight", TOO_MANY);
    await this.#open.during(accountId, work);
  }

  async #listFiles({ exchange, live, route, token }: OpenAiCall): Promise<void> {
    const page = readPage(route.query, (text) => readFileId(text).id);
    const purpose = new URLSearchParams(route.query).get("purpose");
    const asked = {
      ...page,
      appNumber: live.app.number,
      ...callerOf(token),
      ...(purpose !== null && { purpose }),
    };
    const files = await this.#parts.store.batchFiles.list({ ...asked, limit: page.limit + 1 });
    const shown = files.slice(0, page.limit).map(fileObject);
    exchange.answerJson(200, listObject(shown, files.length > page.limit));
  }

  async #file(call: OpenAiCall, text: string): Promise<object> {
    const name = readFileId(text);
    if (name.kind === "input") return fileObject(await this.#input(call, name.id));
    const batch = await this.#ended(call, name.id);
    let bytes = 0;
    const { closing } = this.#parts;
    for await (const piece of resultBytes(this.#parts, name, { app: call.live.app, batch }, closing))
      bytes += piece.length;
    return resultFileObject(name, batch, bytes);
  }

  async #content(call: OpenAiCall, text: string): Promise<void> {
    const { exchange, live, token, use } = call;
    const { authenticator, closing, log } = this.#parts;
    const name = readFileId(text);
    const gone = new AbortController();
    const signal = AbortSignal.any([gone.signal, closing]);
    const bytes =
      name.kind === "input"
        ? fileBytes(this.#parts, await this.#input(call, name.id))
        : resultBytes(this.#parts, name, { app: live.app, batch: await this.#ended(call, name.id) }, signal);
    const whole = async function* (): AsyncGenerator<Buffer> {
      yield* bytes;
      if (closing.aborted) throw new AppError("draining");
    };
    exchange.goneListener = { onGone: () => gone.abort() };
    authenticator.hold(call, use, token, () => exchange.drop());
    exchange.open(200, [...BYTES], null);
    exchange.noteBegun();
    await pipeline(Readable.from(whole(), { objectMode: false }), exchange.response).catch(
      (error: unknown) => {
        // Otherwise the reader has left.
        if (error instanceof AppError)
          log.warn({ err: error, requestId: exchange.id }, "a file of a batch broke off");
      },
    );
    gone.abort();
  }

  async #deleteFile(call: OpenAiCall, text: string): Promise<void> {
    const name = readFileId(text);
    if (name.kind !== "input")
      throw new AppError("bad_request", { message: "Files of results are removed with their batch." });
    const { appNumber, id } = await this.#input(call, name.id);
    await this.#parts.store.batchFiles.remove({ appNumber, id });
    call.exchange.answerJson(200, { id: fileId("input", id), object: "file", deleted: true });
  }

  async #input({ live, token }: OpenAiCall, id: string) {
    const file = await this.#parts.store.batchFiles.find({ appNumber: live.app.number, id });
    if (!file || !mayRead(token, file))
      throw new AppError("not_found", { message: "The app has no such file." });
    return file;
  }

  async #create(call: OpenAiCall): Promise<void> {
    const { exchange, live, route, head, token, use } = call;
    const { store, steadyClock, batchFeeder, reserve, submitter, tracer, clock } = this.#parts;
    const startMs = clock.now();
    const body = BATCH.safeParse(await readJson(call));
    if (!body.success) throw new AppError("bad_request", { message: z.prettifyError(body.error) });
    const { endpoint, input_file_id: inputFileId, metadata = null } = body.data;
    const { number: appNumber } = live.app;
    const functionName = use === "server" ? endpoint : route.functionName;
    const key = keyOf(call, JSON.stringify([functionName, endpoint, inputFileId, metadata]));
    if (key && (await this.#replayed(call, key))) return;
    submitter.checkOpen(appNumber);
    if (reserve.refusal !== null) throw new AppError("storage_full", { message: reserve.refusal });
    const file = await this.#input(call, readFileId(inputFileId).id);
    const createdAt = steadyClock.now();
    const { id } = exchange;
    const { caller } = token.principal;
    const { maxBodyBytes } = live.version.config.limits;
    const requests = () => this.#requestsIn(file, endpoint, maxBodyBytes);
    const faults = await faultsOf(requests());
    const details: BatchDetails = { endpoint, inputFileId, metadata, faults };
    const times = { createdAt, expiresAt: createdAt + KEPT_MS };
    const made = { id, appNumber, ...caller, ...times, details: JSON.stringify(details) };
    const keyed = { ...made, key, since: createdAt - BATCH_KEY_MS };
    let lines: LineBatch | null = null;
    let isFirst: boolean;
    if (faults.length > 0) isFirst = await store.openaiBatches.insert(keyed);
    else {
      const nothing = {
        keyHash: null,
        fingerprint: null,
        webhookEndpoint: null,
        sealedSecret: null,
        retryOf: null,
      };
      const wishes = readAsked({ head, token, fairness: fairnessOf(head, token) }, "ttl=24h", "", createdAt);
      const owner = { id, appNumber, functionName, ip: exchange.callerAddress, ...caller };
      const parts = { store, steadyClock, reserve, onStarted: () => batchFeeder.wake() };
      const trace = beginTrace(tracer, call, true);
      const draft = { ...owner, ...nothing, wishes, trace, createdAt };
      const upload = new BatchUpload(parts, draft, null, maxBodyBytes);
      try {
        for await (const line of requests()) if ("customId" in line) await upload.write(line.line);
        await upload.flush();
        // Before it runs: what runs can be found, and cancelled, also by a caller who gets no answer.
        isFirst = await store.openaiBatches.insert(keyed);
        if (isFirst) {
          lines = await upload.finish();
          tracer.uploaded(lines, live.target, startMs);
        } else await upload.breakOff();
      } catch (error) {
        await upload.breakOff().catch(() => undefined);
        throw error;
      }
    }
    if (isFirst) return exchange.answerJson(200, batchObject(made, lines));
    // Another request with the same key was faster.
    if (!key || !(await this.#replayed(call, key))) throw new AppError("upload_replaced");
  }

  /** Answers with the batch that was made with the same key; false if there is none. */
  async #replayed({ exchange, live }: OpenAiCall, { keyHash, fingerprint }: BatchKey): Promise<boolean> {
    const { store, steadyClock } = this.#parts;
    const query = { appNumber: live.app.number, keyHash, since: steadyClock.now() - BATCH_KEY_MS };
    const found = await store.openaiBatches.findByKey(query);
    if (!found) return false;
    if (Buffer.compare(found.fingerprint ?? Buffer.alloc(0), fingerprint) !== 0)
      throw new AppError("idempotency_mismatch");
    const { batch } = found;
    exchange.answerJson(200, batchObject(batch, await this.#lines(batch)), REPLAYED);
    return true;
  }

  /** The lines of a file of requests, read; empty ones are left out. */
  async *#requestsIn(file: BatchFile, endpoint: string, maxBodyBytes: number) {
    // Null for a line that is too long.
    let found: (Buffer | null)[] = [];
    let count = 0;
    let isTooLong = false;
    const onLine = (line: Buffer, isPiece: boolean): void => {
      const wasTooLong = isTooLong;
      isTooLong = isPiece;
      if (isPiece) return;
      if (wasTooLong) found.push(null);
      else if (line.some((byte) => byte > 0x20)) found.push(Buffer.from(line));
    };
    const cutter = new LineCutter({ maxBytes: maxBodyBytes + LINE_EXTRA_BYTES }, onLine);
    const taken = (): (Buffer | null)[] => {
      const lines = found;
      found = [];
      return lines;
    };
    const read = (line: Buffer | null): ReturnType<typeof lineOfRequest> => {
      count += 1;
      return line ? lineOfRequest(line, endpoint, count) : { ...TOO_LONG, line: count };
    };
    for await (const bytes of fileBytes(this.#parts, file)) {
      cutter.push(bytes);
      cutter.cut();
      for (const line of taken()) yield read(line);
    }
    cutter.end();
    for (const line of taken()) yield read(line);
  }

  async #listBatches({ exchange, live, route, token }: OpenAiCall): Promise<void> {
    const page = readPage(route.query, readBatchId);
    const asked = { ...page, appNumber: live.app.number, ...callerOf(token), limit: page.limit + 1 };
    const batches = await this.#parts.store.openaiBatches.list(asked);
    const shown = batches.slice(0, page.limit);
    const objects = await Promise.all(
      shown.map(async (batch) => batchObject(batch, await this.#lines(batch))),
    );
    exchange.answerJson(200, listObject(objects, batches.length > page.limit));
  }

  async #batch(call: OpenAiCall, text: string): Promise<object> {
    const batch = await this.#find(call, readBatchId(text));
    return batchObject(batch, await this.#lines(batch));
  }

  async #cancel(call: OpenAiCall, text: string): Promise<void> {
    const batch = await this.#find(call, readBatchId(text));
    const lines = await this.#lines(batch);
    if (!lines || !(await this.#parts.batchFeeder.cancel(lines))) throw new AppError("batch_finished");
    call.exchange.answerJson(200, await this.#batch(call, text));
  }

  async #find({ live, token }: Pick<OpenAiCall, "live" | "token">, id: string): Promise<OpenAiBatch> {
    const batch = await this.#parts.store.openaiBatches.find({ appNumber: live.app.number, id });
    if (!batch || !mayRead(token, batch)) throw new AppError("batch_not_found");
    return batch;
  }

  async #lines({ appNumber, id }: OpenAiBatch): Promise<LineBatch | null> {
    return await this.#parts.store.lineBatches.find({ appNumber, id });
  }

  async #ended(call: OpenAiCall, id: string): Promise<LineBatch> {
    const lines = await this.#lines(await this.#find(call, id));
    if (!lines || !hasBatchEnded(lines.state))
      throw new AppError("not_found", { message: "The batch has no results yet." });
    return lines;
  }
}

type BatchKey = { readonly keyHash: Buffer; readonly fingerprint: Buffer };

function keyOf({ head, token }: OpenAiCall, asked: string): BatchKey | null {
  const { idempotencyKey: key } = head;
  if (key === null) return null;
  return { keyHash: keyHashOf(key, token), fingerprint: hash("sha256", asked, "buffer") };
}

async function faultsOf(requests: AsyncIterable<ReturnType<typeof lineOfRequest>>): Promise<RequestFault[]> {
  const faults: RequestFault[] = [];
  const customIds = new Set<string>();
  let line = 0;
  for await (const read of requests) {
    line += 1;
    if (!("customId" in read)) faults.push(read);
    else if (customIds.has(read.customId)) {
      const message = `The custom_id ${JSON.stringify(read.customId)} is given twice.`;
      faults.push({ code: "duplicate_custom_id", message, param: "custom_id", line });
    } else customIds.add(read.customId);
    if (faults.length >= MAX_FAULTS) return faults;
    if (line > MAX_REQUESTS) {
      const message = `A file has up to ${MAX_REQUESTS.toLocaleString("en")} requests.`;
      return [...faults, { code: "too_many_requests", message, param: null, line }];
    }
  }
  if (line > 0) return faults;
  return [{ code: "empty_file", message: "The file has no requests.", param: null, line: 0 }];
}

function mayRead(
  { principal: { role, caller } }: RememberedToken,
  owned: Pick<Run, "accountId" | "user">,
): boolean {
  return role !== "call" || isCallerOf(caller, owned);
}

function callerOf({ principal: { role, caller } }: RememberedToken) {
  return role === "call" ? { caller } : {};
}

function readPage(text: string, idOf: (text: string) => string) {
  const query = new URLSearchParams(text);
  const limit = query.get("limit") ?? String(PAGE);
  const order = query.get("order") ?? "desc";
  const after = query.get("after");
  const isValid = /^\d{1,5}$/.test(limit) && Number(limit) >= 1 && (order === "asc" || order === "desc");
  if (!isValid)
    throw new AppError("bad_request", { message: "limit must be a whole number, order asc or desc." });
  return {
    limit: Math.min(Number(limit), 100),
    order: order === "asc" ? ("asc" as const) : ("desc" as const),
    ...(after !== null && { after: idOf(after) }),
  };
}

async function readJson({ exchange, head }: OpenAiCall): Promise<unknown> {
  if (head.isHeldBack) exchange.response.writeContinue();
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of exchange.request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size > MAX_BODY_BYTES) throw new AppError("body_too_large");
    pieces.push(piece);
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString());
  } catch (error) {
    throw new AppError("invalid_json", {}, error);
  }
}
