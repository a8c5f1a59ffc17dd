import { Condition } from "../kit/concurrency.ts";
import type { Clock, Timer } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Checkpoint, RunKey, TranscriptPart } from "../model/run.ts";
import type { Chunk } from "../replicas/call.ts";
import type { Store } from "../store/store.ts";
import type { CheckpointFate } from "./checkpoint-writer.ts";
import { DurableChunks, type DurableOptions } from "./durable-chunks.ts";
import type { NumberedChunk, PartReader, PartWriter } from "./transcript-parts.ts";
import { chunksAfter, PartBuilder } from "./transcript-parts.ts";

/** A run's chunks, to be read again by number, from 1. */
export type Transcript = {
  /**
   * Available chunks after that number; if the first is not the next one, those between are no longer kept. Waits for one
   * while the run continues; null if there are no more, or the signal aborts.
   */
  read(after: number, signal?: AbortSignal): Promise<readonly NumberedChunk[] | null>;
  /** The same without waiting; null if the next chunk is not in memory. */
  atHand(after: number): readonly NumberedChunk[] | null;
  /** The number of the last chunk; 0 if there is none. */
  last(): Promise<number>;
};

/** All chunks of a run, part by part; throws if some are no longer kept. */
export async function* allChunks(transcript: Transcript): AsyncGenerator<readonly NumberedChunk[]> {
  let after = 0;
  for (let chunks = await transcript.read(0); chunks; chunks = await transcript.read(after)) {
    if (chunks[0]?.event !== after + 1) throw new AppError("payload_not_kept");
    yield chunks;
    after += chunks.length;
  }
}

export type TranscriptOptions = {
  readonly key: RunKey;
  /** The number of the next chunk; those before are stored already. */
  readonly firstEvent: number;
  readonly store: Store;
  /** Set if chunks must survive a crash: they are stored within `SEAL_MS`. */
  readonly clock: Clock | null;
  readonly writer: PartWriter;
  readonly reader: PartReader;
  readonly maxBytes: number;
  /** False: only the last parts can be read, and nothing is stored. */
  readonly isKept: boolean;
  /** How chunks are stored once the run has made a checkpoint; null while it may make none. */
  readonly durable?: () => TranscriptDurability | null;
  /** Whether a caller was promised the transcript; otherwise it is not stored when the disk is nearly full. */
  readonly isOwed?: () => boolean;
};

type TranscriptDurability = Omit<DurableOptions, "onChange"> & {
  /** It continues what an earlier attempt has stored: so many bytes. */
  readonly resumedBytes: number | null;
};

/** Held in memory by each stream: ten thousand hold 160 MB. */
const PART_BYTES = 16 * 1024;
/** Twice a second: a row for each chunk of a slow stream would cost too much. */
const SEAL_MS = 500;
/** Parts of a transcript that is not kept, for its readers: twice what a socket gives in one tick. */
const FOLLOWED_PARTS = 8;
/** Beyond its limit, a transcript loses this share of its beginning at once, not a part at a time. */
const CUT_SHARE = 1 / 8;

/** The transcript of a run in progress: its last part in memory, earlier ones in the store. */
export class LiveTranscript implements Transcript {
  readonly #options: TranscriptOptions;
  readonly #open = new PartBuilder();
  /** On their way to the store. */
  #leaving: TranscriptPart[] = [];
  /** The latest one, if it could not be stored. */
  #givenUp: TranscriptPart | null = null;
  /** Where each stored part begins, and its length. */
  #stored: { readonly firstEvent: number; readonly bytes: number }[] = [];
  #bytes = 0;
  #writes: Promise<unknown> = Promise.resolve();
  #isOver = false;
  #isFollowed = false;
  #sealing: Timer | null = null;
  readonly #changed = new Condition();
  /** Set from the first checkpoint on: chunks are stored before they can be read. */
  #durable: DurableChunks | null = null;
  /** The one plain value of a run that made a checkpoint can be read. */
  #isRevealed = false;
  #plain: PartBuilder | null = null;

  constructor(options: TranscriptOptions) {
    this.#options = options;
    this.#open.firstEvent = options.firstEvent;
    const durable = options.durable?.() ?? null;
    if (durable === null || durable.resumedBytes === null) return;
    this.#bytes = durable.resumedBytes;
    this.#durable = this.#makeDurable(durable, null);
  }

  /** Chunks so far. */
  get count(): number {
    const last = this.#plain ?? this.#open;
    return last.firstEvent + last.eventCount - 1;
  }

  /** Whether it is beyond its limit. */
  get isTooLong(): boolean {
    return this.#bytes + this.#open.bytes > this.#options.maxBytes;
  }

  get isDurable(): boolean {
    return this.#durable !== null;
  }

  /**
   * Stores a checkpoint with all chunks so far; from now on chunks are stored before they can be read. False if the run
   * may make none.
   */
  checkpoint(checkpoint: Checkpoint, onFate: (fate: CheckpointFate) => void): boolean {
    const { isKept, durable } = this.#options;
    const options = isKept ? (durable?.() ?? null) : null;
    if (options === null) return false;
    if (this.#durable === null) {
      // From now on one writer alone takes what is open.
      this.#sealing?.cancel();
      this.#durable = this.#makeDurable(options, this.#givenUpAtLast());
    }
    this.#durable.add(checkpoint, onFate);
    return true;
  }

  #makeDurable(options: TranscriptDurability, before: Promise<TranscriptPart | null> | null): DurableChunks {
    const onStored: DurableOptions["onStored"] = (bytes, wireBytes) => {
      this.#bytes += bytes;
      options.onStored(bytes, wireBytes);
    };
    const onChange = (): void => this.#changed.notify();
    return new DurableChunks(this.#open, { ...options, onStored, onChange }, before);
  }

  /** What is on its way to the store arrives first. */
  async #givenUpAtLast(): Promise<TranscriptPart | null> {
    await this.#writes;
    return this.#givenUp;
  }

  add(chunk: Pick<Chunk, "isText" | "bytes"> & Partial<Pick<Chunk, "wireBytes">>): void {
    this.#open.add(chunk);
    if (this.#durable) return this.#durable.note(chunk.wireBytes ?? 0);
    if (this.#open.bytes >= PART_BYTES) this.#seal();
    else if (this.#options.clock) this.#sealing ??= this.#sealLater(this.#options.clock);
    if (this.#changed.isAwaited) this.#changed.notify();
  }

  /** No more chunks will come; returns the part to store with the run's record. */
  end(): TranscriptPart | null {
    this.#isOver = true;
    this.#sealing?.cancel();
    this.#changed.notify();
    if (!this.#options.isKept || this.#durable) return null;
    // The last chunk is stored in any case: by its number, readers know that they have all.
    return this.#open.eventCount > 0 ? this.#open.view() : (this.#leaving.at(-1) ?? this.#givenUp);
  }

  /** The run gave one plain value, or none: the record stores it, and followers read it here. */
  endPlain(chunk: Pick<Chunk, "isText" | "bytes"> | null): void {
    let builder = this.#open;
    if (this.#durable) {
      // It is stored with the run's record, and must not be taken for a chunk.
      builder = this.#plain = new PartBuilder();
      builder.firstEvent = this.#open.firstEvent + this.#open.eventCount;
    }
    if (chunk) builder.add(chunk);
    this.#isOver = true;
    this.#changed.notify();
  }

  /** The run's end is recorded. */
  reveal(): void {
    if (!this.#durable) return;
    this.#isRevealed = true;
    this.#changed.notify();
  }

  /** Whether every part but the last is stored, or given up. */
  get isSettled(): boolean {
    return this.#leaving.length === 0 || !this.#options.isKept;
  }

  /** Resolves when it is settled. */
  async settle(): Promise<void> {
    await this.#writes;
    await this.#durable?.settle();
  }

  async read(after: number, signal?: AbortSignal): Promise<readonly NumberedChunk[] | null> {
    const { isKept, key, reader } = this.#options;
    this.#isFollowed = true;
    for (;;) {
      const held = this.#held();
      const isOlder = after + 1 < held[0]!.firstEvent;
      const stored = isOlder && isKept ? await reader.next(key, after) : null;
      const part = stored ?? partAfter(held, after);
      if (part) return chunksAfter(part, after);
      if ((this.#isOver && !this.#durable?.isBusy) || signal?.aborted) return null;
      await this.#changed.wait(signal);
    }
  }

  atHand(after: number): readonly NumberedChunk[] | null {
    const held = this.#held();
    const part = after + 1 < held[0]!.firstEvent ? null : partAfter(held, after);
    return part && chunksAfter(part, after);
  }

  last(): Promise<number> {
    return Promise.resolve(this.count);
  }

  /** The parts in memory, the oldest first. */
  #held(): readonly TranscriptPart[] {
    const givenUp = this.#givenUp ? [this.#givenUp] : [];
    const before = [...this.#leaving, ...givenUp];
    if (!this.#durable) return [...before, this.#open.view()];
    // Those before the first checkpoint may be on their way still.
    const plain = this.#isRevealed && this.#plain ? [this.#plain.view()] : [];
    return [...before, ...this.#durable.recent, ...plain];
  }

  #sealLater(clock: Clock): Timer {
    return clock.after(SEAL_MS, () => {
      this.#sealing = null;
      if (this.#open.eventCount > 0) this.#seal();
    });
  }

  #seal(): void {
    const part = this.#open.take();
    this.#leaving.push(part);
    this.#givenUp = null;
    if (!this.#options.isKept) {
      if (this.#leaving.length > (this.#isFollowed ? FOLLOWED_PARTS : 1)) this.#leaving.shift();
      return;
    }
    this.#bytes += part.bytes.length;
    this.#writes = this.#store(part);
  }

  async #store(part: TranscriptPart): Promise<void> {
    const before = this.#writes;
    const { writer, key, isOwed } = this.#options;
    const isStored = await writer.write(key, part, isOwed?.() ?? true);
    this.#leaving = this.#leaving.filter((other) => other !== part);
    const { firstEvent, eventCount } = part;
    const bytes = part.bytes.length;
    if (isStored) this.#stored.push({ firstEvent, bytes });
    else this.#bytes -= bytes;
    if (!isStored && firstEvent + eventCount === this.#open.firstEvent) this.#givenUp = part;
    await before;
    if (this.isTooLong) await this.#cut();
  }

  /** The beginning makes room for the end: readers that reconnect want the latest chunks. */
  async #cut(): Promise<void> {
    const { maxBytes, store, key } = this.#options;
    while (this.#bytes > maxBytes * (1 - CUT_SHARE) && this.#stored.length > 0) {
      this.#bytes -= this.#stored.shift()!.bytes;
    }
    const { firstEvent: before } = this.#stored[0] ?? this.#leaving[0] ?? this.#open;
    // If that fails, it is removed with the rest when it expires.
    await store.transcripts.trim({ ...key, before }).catch(() => undefined);
  }
}

/** The transcript of a run that has ended and is stored. */
export function storedTranscript(reader: PartReader, key: RunKey): Transcript {
  return {
    read: async (after) => {
      const part = await reader.next(key, after);
      return part && chunksAfter(part, after);
    },
    atHand: () => null,
    last: () => reader.last(key),
  };
}

/** The transcript of a run that gave one plain value, as if it had been yielded; or none. */
export function plainTranscript(chunk: Pick<Chunk, "isText" | "bytes"> | null): Transcript {
  const atHand = (after: number) => (chunk && after < 1 ? [{ event: 1, ...chunk }] : null);
  return { read: async (after) => atHand(after), atHand, last: async () => (chunk ? 1 : 0) };
}

/** The first part with a chunk after that number. */
function partAfter(parts: readonly TranscriptPart[], after: number): TranscriptPart | null {
  const isAfter = ({ firstEvent, eventCount }: TranscriptPart) =>
    eventCount > 0 && firstEvent + eventCount > after + 1;
  return parts.find(isAfter) ?? null;
}
