import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { LiveApp } from "../../apps/catalog.ts";
import type { RememberedToken } from "../../identity/tokens.ts";
import { Counts } from "../../kit/concurrency.ts";
import type { Log } from "../../kit/log.ts";
import { AppError } from "../../model/errors.ts";
import { type LineBatch, MAX_BATCH_BYTES } from "../../model/line-batch.ts";
import { isWish } from "../../model/wishes.ts";
import { BATCH_KEY_MS, BatchUpload, type UploadParts } from "../../runs/batches/upload.ts";
import type { RecordParts } from "../../runs/batches/counted-record.ts";
import type { BatchFeeder } from "../../runs/batches/feeder.ts";
import type { Submitter } from "../../runs/submit.ts";
import { batchRecord } from "../../shapes/batches.ts";
import type { NewLineBatch } from "../../store/batches/line-batches.ts";
import type { Store } from "../../store/store.ts";
import { type AppRequest, appUrl, beginTrace } from "../app-request.ts";
import { type Authenticator, checkMayBatch } from "../authenticate.ts";
import type { BodyRoom } from "../body.ts";
import type { RequestHead } from "../request-head.ts";
import { type AppRoute, type CallRoute, queryWithout, readQuery } from "../route.ts";
import { fairnessOf } from "../fairness.ts";
import { admitRun, keyHashOf, readAsked, readWebhook, type StarterParts } from "../start-run.ts";

export type UploadRouteParts = Pick<
  StarterParts,
  "seal" | "webhookAllow" | "publicApiUrl" | "tracer" | "clock" | "quotas"
> & {
  readonly submitter: Pick<Submitter, "checkOpen">;
} & Pick<UploadParts, "reserve" | "steadyClock"> & {
    readonly store: Store;
    readonly authenticator: Authenticator;
    readonly batchFeeder: Pick<BatchFeeder, "wake">;
    readonly queueStates: RecordParts["queueStates"];
    readonly bodyRoom: BodyRoom;
    /** How long an upload may be silent. */
    readonly bodyTimeoutMs: number;
    readonly log: Log;
  };

type UploadRequest = AppRequest<CallRoute>;

const LINES_TYPE = /^application\/(?:jsonl|x-ndjson)\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?;?$/i;
const WRONG_ENCODING = { message: "Send the lines in UTF-8, without a content encoding." };
/** Uploads of one account at once. */
const MAX_UPLOADS = 8;
const TOO_MANY = {
  message: `This account has ${MAX_UPLOADS} uploads of batches in progress; wait for one to finish.`,
  headers: { "retry-after": "5" },
};
const NO_ROOM = {
  message: "The bodies of other calls take up all available memory; try again shortly.",
  headers: { "retry-after": "1" },
};
/** A block of lines, and those before it that are on their way to the store. */
const UPLOAD_BYTES = 4 * 1024 * 1024;
const REPLAYED = { "idempotent-replayed": "true" };

/** Whether a body is JSON Lines, by its type. */
export function isLines(contentType: string | null): boolean {
  return contentType !== null && LINES_TYPE.test(contentType);
}

/** `POST …/{function}/batches` with JSON Lines. */
export class BatchUploads {
  readonly #parts: UploadRouteParts;
  /** Of each account. */
  readonly #open = new Counts<string>();

  constructor(parts: UploadRouteParts) {
    this.#parts = parts;
  }

  /** The caller may call the function. */
  async handle(call: UploadRequest, live: LiveApp, token: RememberedToken | null): Promise<void> {
    const { exchange, head, route } = call;
    // A public app takes calls from everyone, but not a million at once.
    if (!token) throw new AppError("unauthorized", { headers: { "www-authenticate": "Bearer" } });
    checkMayBatch(token);
    admitRun({ route, token }, this.#parts);
    checkHead(head);
    const { store, steadyClock, reserve, submitter, tracer, clock } = this.#parts;
    const startMs = clock.now();
    const draft = this.#draft(call, live, token);
    const earlier = await this.#earlier(draft);
    if (earlier && earlier.state !== "uploading") return this.#accepted(call, earlier, REPLAYED);
    submitter.checkOpen(live.app.number);
    if (reserve.refusal !== null) throw new AppError("storage_full", { message: reserve.refusal });
    const { accountId } = token.principal.caller;
    if (this.#open.of(accountId) >= MAX_UPLOADS) throw new AppError("too_many_in_flight", TOO_MANY);
    await this.#open.during(accountId, async () => {
      const now = steadyClock.now();
      const before = earlier && (await store.lineBatches.resume({ number: earlier.number, now }));
      // It was completed, or given up, just now.
      if (earlier && !before) throw new AppError("upload_replaced");
      if (before) exchange.id = before.id;
      if (head.isHeldBack) exchange.response.writeContinue();
      const parts = { ...this.#parts, onStarted: () => this.#parts.batchFeeder.wake() };
      const { maxBodyBytes } = live.version.config.limits;
      const upload = new BatchUpload(parts, draft, before, maxBodyBytes);
      const batch = await this.#receive(call, upload, token, route);
      if (!batch) return;
      this.#accepted(call, batch);
      tracer.uploaded(batch, live.target, startMs);
    });
  }

  #draft(call: UploadRequest, live: LiveApp, token: RememberedToken): NewLineBatch {
    const { exchange, head, route } = call;
    const { steadyClock, tracer } = this.#parts;
    const now = steadyClock.now();
    const webhook = readWebhook(exchange, readQuery(route.query).webhookEndpoint, this.#parts);
    const { functionName } = route;
    const rest = queryWithout(route.query, (name) => isWish(name, ""));
    const key = head.idempotencyKey;
    return {
      id: exchange.id,
      appNumber: live.app.number,
      functionName,
      ip: exchange.callerAddress,
      ...token.principal.caller,
      trace: beginTrace(tracer, call, true),
      keyHash: key === null ? null : keyHashOf(key, token),
      fingerprint: key === null ? null : hash("sha256", `${functionName}\n${rest}`, "buffer"),
      wishes: readAsked({ head, token, fairness: fairnessOf(head, token) }, route.query, "", now),
      webhookEndpoint: webhook?.endpoint ?? null,
      sealedSecret: webhook?.sealedSecret ?? null,
      retryOf: null,
      createdAt: now,
    };
  }

  /** The batch that has the upload's key. */
  async #earlier({ appNumber, keyHash, fingerprint }: NewLineBatch): Promise<LineBatch | null> {
    if (keyHash === null || fingerprint === null) return null;
    const { store, steadyClock } = this.#parts;
    const since = steadyClock.now() - BATCH_KEY_MS;
    const earlier = await store.lineBatches.findByKey({ appNumber, keyHash, since });
    if (earlier && Buffer.compare(earlier.fingerprint ?? Buffer.alloc(0), fingerprint) !== 0)
      throw new AppError("idempotency_mismatch");
    return earlier;
  }

  /** Stores the lines as they come; null if the caller has gone. */
  async #receive(
    call: UploadRequest,
    upload: BatchUpload,
    token: RememberedToken,
    route: AppRoute,
  ): Promise<LineBatch | null> {
    const { exchange } = call;
    const { authenticator, bodyRoom } = this.#parts;
    const growTo = bodyRoom.open(route.projectId, exchange);
    const watch = new SilenceWatch(this.#parts);
    authenticator.hold(call, "function", token, (error) => watch.fail(error));
    try {
      for await (const data of watch.pieces(exchange.request)) {
        if (!growTo(UPLOAD_BYTES + 2 * upload.openBytes)) throw new AppError("overloaded", NO_ROOM);
        await upload.write(data);
      }
      await authenticator.confirm(call, "function", token);
      return await upload.finish();
    } catch (error) {
      // What failed is told to the caller; what is lost here is found again by the feeder.
      await upload.breakOff().catch((cause: unknown) => {
        this.#parts.log.debug({ err: cause }, "could not end an upload that was broken off");
      });
      const { request, response } = exchange;
      if (response.destroyed || (request.destroyed && !request.complete)) return null;
      throw error;
    } finally {
      watch.stop();
    }
  }

  #accepted(
    { exchange, route }: UploadRequest,
    batch: LineBatch,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    const { publicApiUrl, steadyClock, queueStates } = this.#parts;
    exchange.id = batch.id;
    const { projectId, appName: name } = route;
    const lines = { running: 0, queue: queueStates.stateOf(batch.appNumber) };
    const record = batchRecord(batch, { projectId, name }, lines, steadyClock.now());
    const location = `${appUrl(exchange, route, publicApiUrl)}/batches/${batch.id}`;
    exchange.answerJson(202, record, { location, ...headers });
  }
}

function checkHead({ contentEncoding, contentLength }: RequestHead): void {
  if (contentEncoding !== null && contentEncoding !== "identity")
    throw new AppError("unsupported_media_type", WRONG_ENCODING);
  if (Number(contentLength ?? 0) > MAX_BATCH_BYTES)
    throw new AppError("body_too_large", { message: `A batch has up to ${MAX_BATCH_BYTES / 1e9} GB.` });
}

/** Reads a body as long as it keeps coming. */
export class SilenceWatch {
  readonly #timer: { cancel(): void };
  /** Ends the wait for the next piece; null while there is none. */
  #reject: ((error: AppError) => void) | null = null;
  #error: AppError | null = null;
  /** Since the last piece. */
  #quietLooks = 0;

  constructor({
    steadyClock: clock,
    bodyTimeoutMs,
  }: Pick<UploadRouteParts, "steadyClock" | "bodyTimeoutMs">) {
    // Looks are counted, not time: what has arrived while the service was busy counts.
    this.#timer = clock.every(bodyTimeoutMs / 2, () => {
      this.#quietLooks += 1;
      if (!this.#reject || this.#quietLooks <= 2) return;
      this.fail(new AppError("request_timeout", { message: "The upload was silent for too long." }));
    });
  }

  fail(error: AppError): void {
    this.#error = error;
    this.#reject?.(error);
  }

  stop(): void {
    this.#timer.cancel();
  }

  /** Rejects if the caller leaves, or at `fail`; the request is not destroyed then, so that it can be answered. */
  async *pieces(request: IncomingMessage): AsyncGenerator<Buffer> {
    const pieces = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
    for (;;) {
      if (this.#error) throw this.#error;
      this.#quietLooks = 0;
      // Not a race with a promise for all pieces, which would remember each of them.
      const next = await new Promise<IteratorResult<Buffer>>((resolve, reject) => {
        this.#reject = reject;
        pieces.next().then(resolve, reject);
      });
      this.#reject = null;
      if (next.done) return;
      yield next.value;
    }
  }
}
