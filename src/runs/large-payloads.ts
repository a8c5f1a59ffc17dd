import { BlobDamaged, BlobMissing, type BlobStore, collectBlobs, storeTime } from "../blobs/blob-store.ts";
import { Breaker } from "../kit/breaker.ts";
import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { AppError } from "../model/errors.ts";
import type { NewDelivery } from "../model/delivery.ts";
import type { Payload, PayloadBlob } from "../model/run.ts";
import type { RunBlobName } from "../store/runs/payloads.ts";
import type { Store } from "../store/store.ts";
import { randomUUID } from "node:crypto";
import type { Outcome } from "../model/outcome.ts";
import type { ClaimedRun } from "../store/runs/claims.ts";

export type LargePayloadsParts = {
  readonly blobs: BlobStore;
  readonly place: Pick<PayloadPlace, "check">;
  readonly store: Pick<Store, "runBlobs">;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether it is for this node to remove what no run names. */
  readonly isFirst: () => boolean;
};

/** What is larger lies in a blob. Below it a row is quicker: it costs no file, and no request. */
export const LARGE_BYTES = 1024 * 1024;
/** More than any body may have; a row that says so is not believed. */
const MAX_BYTES = 2 ** 31 - 1;
/** Handed over, hashed and written one after the other, so that nobody else waits for a large one. */
const PIECE_BYTES = 256 * 1024;
/**
 * So long a blob is left alone after it was put: a row is about to name it. Whoever could not write that row for 20 minutes
 * puts the blob again first (`REMAKE_MS` of `claim-recorder.ts`).
 */
const YOUNG_MS = 60 * 60 * 1000;
const COLLECT_MS = 15 * 60 * 1000;
const NAMES_AT_ONCE = 1_000;
const NO_BLOB = "0".repeat(64);
/** A probe that has waited so long may be on a dead connection: the next one gets another. */
const PROBE_MS = 2_000;

/**
 * Large inputs, results and bodies of webhooks, which lie in the blob store where several nodes share a database: a blob is
 * durable before the row that names it is written, and removed when no row does. A store that falls silent is given up
 * after 4.25 s, and while it stays so everybody is refused at once.
 */
export class LargePayloads {
  readonly #parts: LargePayloadsParts;
  readonly #breaker: Breaker;
  readonly #stopping = new AbortController();
  /** Breaks off what was asked of a store that is silent. */
  #giveUp = new AbortController();
  #timer: Timer | null = null;
  #collecting: Promise<void> | null = null;

  constructor(parts: LargePayloadsParts) {
    const { clock, log } = parts;
    this.#parts = parts;
    this.#breaker = new Breaker({
      clock,
      probe: () => this.#probe(),
      isSilence: () => false,
      refusal: () => unavailable(new Error("the blob store does not answer")),
      onChange: (isOpen) => {
        if (isOpen) log.error("the blob store does not answer: large payloads are refused");
        else log.info("the blob store answers again");
        if (!isOpen) return;
        this.#giveUp.abort();
        this.#giveUp = new AbortController();
      },
    });
  }

  /** Removes what no run names, from now on. */
  start(): void {
    this.#timer = this.#parts.clock.every(COLLECT_MS, () => void this.collect());
  }

  /** Breaks off what is under way. */
  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#breaker.stop();
    this.#stopping.abort();
    this.#giveUp.abort();
    await this.#collecting;
  }

  /** Whether these bytes are to lie in a blob. */
  isLarge(bytes: Uint8Array | null): bytes is Uint8Array {
    return bytes !== null && bytes.length > LARGE_BYTES;
  }

  /** Stores bytes, durably. Throws `storage_unavailable` if the store cannot take them now. */
  async put(bytes: Uint8Array): Promise<PayloadBlob> {
    const { blobs, place } = this.#parts;
    const { hash } = await this.#ask(async (signal) => {
      await place.check();
      return await blobs.put(piecesOf(bytes), signal);
    });
    return { hash, bytes: bytes.length };
  }

  /** A payload whose input lies in a blob. */
  async withInput(payload: Payload, input: Uint8Array): Promise<Payload> {
    return { ...payload, input: null, inputBlob: await this.put(input) };
  }

  /** A delivery whose body lies in a blob, which may be there already. */
  async withBody(
    delivery: NewDelivery,
    body: Uint8Array,
    there: PayloadBlob | undefined,
  ): Promise<NewDelivery> {
    return { ...delivery, body: null, bodyBlob: there ?? (await this.put(body)) };
  }

  /** The bytes of a blob; null if it is gone, or damaged. Throws `storage_unavailable` if the store cannot say now. */
  async read({ hash, bytes }: PayloadBlob): Promise<Buffer | null> {
    try {
      if (bytes > MAX_BYTES) throw new BlobDamaged(hash, this.#parts.blobs.place);
      return await this.#ask((signal) => this.#whole(hash, bytes, signal));
    } catch (error) {
      if (!isGone(error)) throw error;
      await this.#ask(() => this.#parts.place.check());
      this.#parts.log.error({ err: error }, "a large payload is gone, or damaged");
      return null;
    }
  }

  /** Removes the blobs that no run names any more; never rejects. */
  async collect(): Promise<void> {
    if (!this.#parts.isFirst()) return;
    this.#collecting ??= this.#collect().finally(() => (this.#collecting = null));
    await this.#collecting;
  }

  async #collect(): Promise<void> {
    const { blobs, store, log } = this.#parts;
    const { signal } = this.#stopping;
    try {
      let last: RunBlobName | null = null;
      do last = await store.runBlobs.tidy({ after: last, limit: NAMES_AT_ONCE });
      while (last && !signal.aborted);
      const putBefore = (await storeTime(blobs)) - YOUNG_MS;
      const count = await collectBlobs(blobs, store.runBlobs.named, putBefore, signal);
      if (count > 0) log.info({ count }, "removed large payloads that no run names");
    } catch (error) {
      if (!signal.aborted) log.error({ err: error }, "could not remove large payloads; retrying");
    }
  }

  async #probe(): Promise<void> {
    const { blobs, clock } = this.#parts;
    const late = new AbortController();
    const timer = clock.after(PROBE_MS, () => late.abort());
    try {
      await blobs.has(NO_BLOB, late.signal);
    } finally {
      timer.cancel();
    }
  }

  async #whole(hash: string, bytes: number, signal: AbortSignal): Promise<Buffer> {
    const whole = Buffer.allocUnsafeSlow(bytes);
    let at = 0;
    for await (const piece of this.#parts.blobs.open(hash, { bytes, signal })) at += piece.copy(whole, at);
    return whole;
  }

  async #ask<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const { signal } = this.#giveUp;
    return await this.#breaker
      .run(() => work(signal))
      .catch((error: unknown) => {
        throw isGone(error) || error instanceof AppError ? error : unavailable(error);
      });
  }
}

function* piecesOf(bytes: Uint8Array): Generator<Uint8Array, void, void> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

function isGone(error: unknown): boolean {
  return error instanceof BlobMissing || error instanceof BlobDamaged;
}

function unavailable(cause: unknown): AppError {
  const message =
    "The service cannot reach the blob store, where large payloads are, right now; try again shortly.";
  return new AppError("storage_unavailable", { message }, cause);
}

const KEY = "payloads_mark";
const NOTE = "mark";

/**
 * The place of large payloads, which bears a mark since this installation first kept some there. One without it is another:
 * a folder in which nothing is mounted, a wrong bucket. What is missing there is not gone.
 */
export class PayloadPlace {
  readonly #blobs: BlobStore;
  readonly #mark: string;

  private constructor(blobs: BlobStore, mark: string) {
    this.#blobs = blobs;
    this.#mark = mark;
  }

  static async open(blobs: BlobStore, { meta }: Pick<Store, "meta">): Promise<PayloadPlace> {
    const known = await meta.get(KEY);
    if (known !== null) return new PayloadPlace(blobs, known);
    const value = randomUUID();
    // First the mark, then that there is one; of several that begin at once each leaves the mark that counts.
    await blobs.writeNote(NOTE, value);
    const mark = await meta.setIfAbsent({ key: KEY, value });
    if (mark !== value) await blobs.writeNote(NOTE, mark);
    return new PayloadPlace(blobs, mark);
  }

  /** Throws where the mark is not. */
  async check(): Promise<void> {
    if ((await this.#blobs.readNote(NOTE)) === this.#mark) return;
    throw new Error(
      `${this.#blobs.place} is not where this installation keeps large payloads: mount it, or set MILLRACE_BLOBS`,
    );
  }
}

type FetchParts = { readonly large: LargePayloads | null; readonly log: Log };

/** A run that may be executed, or how it ends without. */
type Fetched = { readonly claimed: ClaimedRun; readonly end: Outcome | null };

/** It goes back into the queue. */
export const BACK: Outcome = { kind: "refused", code: "draining" };
const LOST: Outcome = {
  kind: "lost",
  message: "The run's arguments are no longer in the blob store, or damaged there: send them again.",
};

/**
 * Claimed runs in their order, with arguments that lie in blobs. If some cannot be read now, their run and all after it go
 * back: nobody waits with runs in his hands, which could not be cancelled, nor go to a node that reaches the blob store.
 */
export async function* withInputs(
  runs: readonly ClaimedRun[],
  parts: FetchParts,
): AsyncGenerator<Fetched, void, void> {
  let isAway = false;
  for (const claimed of runs) {
    const { inputBlob: blob } = claimed.payload;
    const fetched: Fetched | null =
      blob && !isAway ? await fetchInput(claimed, blob, parts) : { claimed, end: null };
    isAway ||= fetched === null;
    yield isAway || !fetched ? { claimed, end: BACK } : fetched;
  }
}

/** Null while the blob store is away. */
async function fetchInput(
  claimed: ClaimedRun,
  blob: PayloadBlob,
  { large, log }: FetchParts,
): Promise<Fetched | null> {
  try {
    const input = (await large?.read(blob)) ?? null;
    if (!input) return { claimed, end: LOST };
    return { claimed: { ...claimed, payload: { ...claimed.payload, input } }, end: null };
  } catch (error) {
    log.error({ err: error, runId: claimed.run.id }, "could not read the arguments of a run; retrying");
    return null;
  }
}
