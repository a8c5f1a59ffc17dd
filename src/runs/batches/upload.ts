import { AppError } from "../../model/errors.ts";
import { type LineBatch, MAX_BATCH_BYTES, MAX_BATCH_LINES } from "../../model/line-batch.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Store } from "../../store/store.ts";
import type { StorageWatch } from "../../store/upkeep/storage-watch.ts";
import { MAX_OPEN_BATCHES, type NewLineBatch } from "../../store/batches/line-batches.ts";
import { BLOCK_BYTES, LineBlocks, type Lines } from "./line-blocks.ts";

export type UploadParts = {
  readonly store: Pick<Store, "lineBatches">;
  readonly steadyClock: Clock;
  readonly reserve: Pick<StorageWatch, "refusal">;
  /** A batch has begun to run. */
  readonly onStarted: () => void;
};

/** How long the key of a batch counts, from its beginning. */
export const BATCH_KEY_MS = 24 * 3600 * 1000;
/** What a line may have besides its input. */
export const LINE_EXTRA_BYTES = 64 * 1024;
/** Lines that wait longer for the rest of their block are stored when more arrives. */
const FLUSH_MS = 250;
const DIGESTS_AT_ONCE = 500;

type StoredBlock = { readonly first: number; readonly lineCount: number; readonly digest: Uint8Array };

/**
 * An upload of lines: stores them as they arrive, and at its end lets them run. One that continues another with the same
 * key sends all lines again; those that are stored are compared, not stored twice.
 */
export class BatchUpload {
  readonly #parts: UploadParts;
  readonly #blocks: LineBlocks;
  readonly #maxLineBytes: number;
  /** What it is stored as, once there is a line; null until then. */
  #batch: LineBatch | null;
  readonly #draft: NewLineBatch;
  /** Lines that have been stored, or compared. */
  #lines = 0;
  #bytes = 0;
  #flushedAt: number;
  /** The digests of stored blocks that are still to be compared. */
  #known: StoredBlock[] = [];

  /** `before`: the batch that it continues. */
  constructor(parts: UploadParts, draft: NewLineBatch, before: LineBatch | null, maxInputBytes: number) {
    this.#parts = parts;
    this.#draft = draft;
    this.#batch = before;
    this.#maxLineBytes = maxInputBytes + LINE_EXTRA_BYTES;
    this.#blocks = new LineBlocks(this.#maxLineBytes);
    this.#flushedAt = parts.steadyClock.monotonic();
  }

  /** Null until the first lines are stored. */
  get batch(): LineBatch | null {
    return this.#batch;
  }

  get openBytes(): number {
    return this.#blocks.openBytes;
  }

  /** Takes the next bytes; resolves when it is ready for more. */
  async write(data: Buffer): Promise<void> {
    this.#bytes += data.length;
    if (this.#bytes > MAX_BATCH_BYTES)
      throw new AppError("body_too_large", { message: `A batch has up to ${MAX_BATCH_BYTES / 1e9} GB.` });
    await this.#prepare();
    let isCut = this.#blocks.push(data);
    for (let lines = this.#blocks.take(); lines; lines = this.#blocks.take()) {
      await this.#keep(lines);
      if (!isCut) isCut = this.#blocks.push(null);
    }
    // No block that is stored is so large.
    if (this.#blocks.openBytes > BLOCK_BYTES + this.#maxLineBytes && this.#isComparing) throw different();
    const now = this.#parts.steadyClock.monotonic();
    if (now - this.#flushedAt >= FLUSH_MS && !this.#isComparing) await this.flush();
  }

  /** Stores all complete lines. */
  async flush(): Promise<void> {
    this.#flushedAt = this.#parts.steadyClock.monotonic();
    if (this.#isComparing) return;
    const lines = this.#blocks.rest();
    if (lines) await this.#keep(lines);
  }

  /** All bytes have arrived: the lines may run. */
  async finish(): Promise<LineBatch> {
    const { store, steadyClock, onStarted } = this.#parts;
    await this.#prepare();
    this.#blocks.end();
    for (let lines = this.#blocks.rest(); lines; lines = this.#blocks.rest()) await this.#keep(lines);
    const batch = this.#batch;
    if (!batch) throw new AppError("bad_request", { message: "The batch has no lines." });
    if (this.#lines < batch.total) throw different();
    const now = steadyClock.now();
    if (!(await store.lineBatches.start({ number: batch.number, fence: batch.fence, now }))) throw replaced();
    onStarted();
    return { ...batch, state: "running", uploadedAt: now };
  }

  /** The upload has ended too early. With a key it may be continued; without one the batch is over. */
  async breakOff(): Promise<void> {
    const { store, steadyClock } = this.#parts;
    const batch = this.#batch;
    if (!batch) return;
    if (batch.keyHash !== null) return await this.flush();
    const { number, fence } = batch;
    await store.lineBatches.abandon({ number, fence, now: steadyClock.now(), delivery: null });
  }

  get #isComparing(): boolean {
    return this.#batch !== null && this.#lines < this.#batch.total;
  }

  /** Reads what the next lines are to be compared with. */
  async #prepare(): Promise<void> {
    const batch = this.#batch;
    if (!batch || !this.#isComparing || this.#known.length > 0) return;
    const query = { number: batch.number, from: this.#lines, limit: DIGESTS_AT_ONCE };
    this.#known = await this.#parts.store.lineBatches.digests(query);
    this.#blocks.wantedLines = this.#known[0]?.lineCount ?? null;
  }

  async #keep(lines: Lines): Promise<void> {
    if (this.#isComparing) return await this.#compare(lines);
    if (this.#lines + lines.lineCount > MAX_BATCH_LINES)
      throw new AppError("body_too_large", {
        message: `A batch has up to ${MAX_BATCH_LINES.toLocaleString("en")} lines.`,
      });
    await this.#append(lines);
  }

  async #compare({ lineCount, digest }: Lines): Promise<void> {
    const known = this.#known.shift();
    if (!known || known.lineCount !== lineCount || !digest.equals(known.digest)) throw different(known);
    this.#lines += lineCount;
    await this.#prepare();
    this.#blocks.wantedLines = this.#isComparing ? (this.#known[0]?.lineCount ?? null) : null;
  }

  async #insert(now: number): Promise<LineBatch> {
    const { store } = this.#parts;
    const made = await store.lineBatches.insert({ ...this.#draft, since: now - BATCH_KEY_MS });
    if (made === "too_many") throw new AppError("too_many_in_flight", TOO_MANY);
    // Another connection with the same key was faster.
    if (made === "key_taken") throw replaced();
    return made;
  }

  async #append({ lineCount, bytes, digest }: Lines): Promise<void> {
    const { store, steadyClock, reserve } = this.#parts;
    if (reserve.refusal !== null) throw new AppError("storage_full", { message: reserve.refusal });
    const now = steadyClock.now();
    const batch = this.#batch ?? (await this.#insert(now));
    const block = { first: this.#lines, lineCount, bytes, digest };
    const { number, fence } = batch;
    const byteCount = bytes.length;
    if (!(await store.lineBatches.append({ number, fence, block, now }))) throw replaced();
    this.#lines += lineCount;
    this.#flushedAt = steadyClock.monotonic();
    this.#batch = { ...batch, total: this.#lines, totalBytes: batch.totalBytes + byteCount };
  }
}

const TOO_MANY = {
  message:
    `This account has ${MAX_OPEN_BATCHES} batches of this app that have not ended: ` +
    "wait until one has, cancel one, or send more lines in one batch.",
  headers: { "retry-after": "60" },
};

function different(block?: StoredBlock): AppError {
  const where = block ? `: line ${block.first + 1}, or one of the ${block.lineCount - 1} after it` : "";
  const message = `The lines are not those that were sent first with this Idempotency-Key${where}.`;
  return new AppError("idempotency_mismatch", { message });
}

function replaced(): AppError {
  return new AppError("upload_replaced");
}
