import { BlobDamaged, BlobMissing, type BlobStore, collectBlobs, storeTime } from "../blobs/blob-store.ts";
import { Breaker } from "../kit/breaker.ts";
import type { Clock, Timer } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { AppError } from "../model/errors.ts";
import type { PayloadBlob } from "../model/run.ts";
import type { RunBlobName } from "../store/runs/payloads.ts";
import type { Store } from "../store/store.ts";
import { randomUUID } from "node:crypto";
import type { Outcome } from "../model/outcome.ts";
import type { ClaimedRun } from "../store/runs/claims.ts";

export type LargePayloadsParts = {
  readonly blobs: BlobStore;
  readonly place: PayloadPlace;
  readonly store: Pick<Store, "runBlobs">;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether this node removes the blobs that no run names. */
  readonly isFirst: () => boolean;
};

/** Larger payloads are stored in blobs. Smaller ones are faster in rows: they need no file, and no request. */
export const LARGE_BYTES = 1024 * 1024;
/** The maximum of any body; a row with a larger number is wrong. */
const MAX_BYTES = 2 ** 31 - 1;
/** Hashed and written in pieces of this size, so that a large payload delays nothing else. */
const PIECE_BYTES = 256 * 1024;
/** A younger blob may be named by a row soon; after 20 minutes it is put again first (`REMAKE_MS` of the recorder). */
const YOUNG_MS = 60 * 60 * 1000;
const COLLECT_MS = 15 * 60 * 1000;
const NAMES_AT_ONCE = 1_000;
const NO_BLOB = "0".repeat(64);
/** A probe that takes longer may be on a dead connection: the next one gets another. */
const PROBE_MS = 2_000;

/**
 * Large payloads in the blob store that the nodes share: a blob is durable before the row that names it is written, and
 * removed when no row does. Requests to a silent store are aborted after 4.25 s, and refused while it stays silent.
 */
export class LargePayloads {
  readonly #parts: LargePayloadsParts;
  readonly #breaker: Breaker;
  readonly #stopping = new AbortController();
  /** Aborts requests to a silent store. */
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
        if (!isOpen) return log.info("the blob store answers again");
        log.error("the blob store does not answer: large payloads are refused");
        this.#giveUp.abort();
        this.#giveUp = new AbortController();
      },
    });
  }

  /** Starts to remove blobs that no run names. */
  start(): void {
    this.#timer = this.#parts.clock.every(COLLECT_MS, () => void this.collect());
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#breaker.stop();
    this.#stopping.abort();
    this.#giveUp.abort();
    await this.#collecting;
  }

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

  /** The bytes of a blob; null if it is gone or damaged. Throws `storage_unavailable` if the store does not answer. */
  async read({ hash, bytes }: PayloadBlob): Promise<Buffer | null> {
    try {
      if (bytes > MAX_BYTES) throw new BlobDamaged(hash, this.#parts.blobs.place);
      return await this.#ask(async (signal) => {
        const whole = Buffer.allocUnsafeSlow(bytes);
        let at = 0;
        for await (const piece of this.#parts.blobs.open(hash, { bytes, signal }))
          at += piece.copy(whole, at);
        return whole;
      });
    } catch (error) {
      if (!isGone(error)) throw error;
      await this.#ask(() => this.#parts.place.check());
      this.#parts.log.error({ err: error }, "a large payload is gone, or damaged");
      return null;
    }
  }

  /**
   * The same piece by piece, as fast as they are taken. Throws `payload_not_kept` if the blob is gone, or at its end if it is
   * damaged.
   */
  async *pieces({ hash, bytes }: PayloadBlob): AsyncGenerator<Buffer, void, void> {
    const { signal } = this.#giveUp;
    const reading = this.#parts.blobs.open(hash, { bytes, signal });
    try {
      for (;;) {
        const next = await this.#ask(() => reading.next());
        if (next.done) return;
        yield next.value;
      }
    } catch (error) {
      if (!isGone(error)) throw error;
      await this.#ask(() => this.#parts.place.check());
      this.#parts.log.error({ err: error }, "a large payload is gone, or damaged");
      throw new AppError("payload_not_kept", {}, error);
    } finally {
      await reading.return().catch(() => undefined);
    }
  }

  /** Removes the blobs that no run names; never rejects. */
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

/** The place of large payloads, with a mark: without it, it is an unmounted folder or a wrong bucket, and nothing is lost. */
export type PayloadPlace = {
  /** Throws if the mark is missing. */
  check(): Promise<void>;
};

export async function openPayloadPlace(blobs: BlobStore, { meta }: Store): Promise<PayloadPlace> {
  let mark = await meta.get(KEY);
  if (mark === null) {
    const value = randomUUID();
    // First the note, then the row; if several nodes start at once, each leaves the mark that counts.
    await blobs.writeNote(NOTE, value);
    mark = await meta.setIfAbsent({ key: KEY, value });
    if (mark !== value) await blobs.writeNote(NOTE, mark);
  }
  return {
    check: async () => {
      if ((await blobs.readNote(NOTE)) === mark) return;
      throw new Error(
        `${blobs.place} is not where this installation keeps large payloads: mount it, or set MILLRACE_BLOBS`,
      );
    },
  };
}

/** The run is requeued. */
export const BACK: Outcome = { kind: "refused", code: "draining" };
const LOST: Outcome = {
  kind: "lost",
  message: "The run's arguments are no longer in the blob store, or damaged there: send them again.",
};

/**
 * Claimed runs in order, with arguments from blobs, or the outcome of a run that cannot be executed. If the blob store does
 * not answer, that run and later ones are requeued: held here, no call could cancel them and no other node execute them.
 */
export async function* withInputs(
  runs: readonly ClaimedRun[],
  { large, log }: { readonly large: LargePayloads | null; readonly log: Log },
): AsyncGenerator<{ readonly claimed: ClaimedRun; readonly end: Outcome | null }, void, void> {
  let isAway = false;
  for (const claimed of runs) {
    const { payload, run } = claimed;
    let input: Uint8Array | null = payload.input;
    if (payload.inputBlob && !isAway) {
      try {
        input = (await large?.read(payload.inputBlob)) ?? null;
      } catch (error) {
        log.error({ err: error, runId: run.id }, "could not read the arguments of a run; retrying");
        isAway = true;
      }
    }
    if (isAway) yield { claimed, end: BACK };
    else if (payload.inputBlob && !input) yield { claimed, end: LOST };
    else yield { claimed: { ...claimed, payload: { ...payload, input } }, end: null };
  }
}
