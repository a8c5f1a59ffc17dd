import type { Checkpoint, RunKey, TranscriptPart } from "../model/run.ts";
import type { CheckpointFate, CheckpointWriter } from "./checkpoint-writer.ts";
import type { PartBuilder } from "./transcript-parts.ts";

/** A stored part is extended until it has this size: rows of a few chunks each would be slow to read, of many to write. */
const GROWN_BYTES = 4 * 1024;
/** Stored chunks that are kept in memory for readers at the end of the transcript. */
const RECENT_BYTES = 16 * 1024;

export type DurableOptions = {
  readonly key: RunKey;
  readonly claim: { readonly owner: string; readonly fence: number };
  readonly writer: Pick<CheckpointWriter, "write">;
  /** Chunks are stored: their bytes, and what they cost of the generator's credit. */
  readonly onStored: (bytes: number, wireBytes: number) => void;
  /** What waits will not be stored by this service. */
  readonly onLost: (fate: Exclude<CheckpointFate, "stored">) => void;
  /** There may be more to read, or nothing more will come. */
  readonly onChange: () => void;
};

type WaitingCheckpoint = { readonly checkpoint: Checkpoint; readonly onFate: (fate: CheckpointFate) => void };

/**
 * The chunks of a run that has made a checkpoint: each is stored before anyone may read it, guarded by the claim, so that
 * the next attempt continues after exactly what readers have. One write at a time, which takes all that has gathered.
 */
export class DurableChunks {
  readonly #options: DurableOptions;
  readonly #open: PartBuilder;
  /** The parts stored last. */
  #recent: TranscriptPart[];
  #wireBytes = 0;
  #checkpoint: WaitingCheckpoint | null = null;
  #writing: Promise<void> | null = null;
  #fate: Exclude<CheckpointFate, "stored"> | null = null;
  /** Resolves when the chunks before the open ones are stored; with the last part of them if that is still to be done. */
  #before: Promise<TranscriptPart | null> | null;

  constructor(
    open: PartBuilder,
    options: DurableOptions,
    before: Promise<TranscriptPart | null> | null = null,
  ) {
    this.#options = options;
    this.#open = open;
    this.#before = before;
    this.#recent = [{ firstEvent: open.firstEvent, eventCount: 0, bytes: Buffer.alloc(0) }];
  }

  /** Stored parts that are in memory, the oldest first. */
  get recent(): readonly TranscriptPart[] {
    return this.#recent;
  }

  /** Whether something is still to be stored. */
  get isBusy(): boolean {
    return this.#writing !== null;
  }

  /** A chunk has been added to the open ones. */
  note(wireBytes: number): void {
    this.#wireBytes += wireBytes;
    this.#begin();
  }

  /** Stores it with all chunks so far, or after them. One at a time. */
  add(checkpoint: Checkpoint, onFate: (fate: CheckpointFate) => void): void {
    if (this.#fate !== null) onFate(this.#fate);
    else {
      this.#checkpoint = { checkpoint, onFate };
      this.#begin();
    }
  }

  /** Resolves when everything so far is stored, or will not be. */
  async settle(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  #begin(): void {
    if (this.#fate === null) this.#writing ??= this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    const before = this.#before && (await this.#before);
    this.#before = null;
    let fate: CheckpointFate = "stored";
    if (before) fate = await this.#write(before, null, false);
    while (fate === "stored" && (this.#open.eventCount > 0 || this.#checkpoint)) {
      // What comes in the same tick joins the write.
      await Promise.resolve();
      const waiting = this.#checkpoint;
      this.#checkpoint = null;
      const more = this.#open.eventCount > 0 ? this.#open.take() : null;
      const wireBytes = this.#wireBytes;
      this.#wireBytes = 0;
      const last = this.#recent.at(-1);
      const grows = more && last && last.eventCount > 0 && last.bytes.length < GROWN_BYTES ? last : null;
      const part = more && grows ? joined(grows, more) : more;
      fate = await this.#write(part, waiting?.checkpoint ?? null, grows !== null);
      if (fate === "stored" && part) this.#show(part, grows);
      if (fate === "stored" && more) this.#options.onStored(more.bytes.length, wireBytes);
      waiting?.onFate(fate);
      if (fate === "stored") this.#options.onChange();
    }
    // Without a wait after the last look at what waits.
    this.#writing = null;
    if (fate !== "stored") {
      this.#fate = fate;
      this.#checkpoint?.onFate(fate);
      this.#checkpoint = null;
      this.#options.onLost(fate);
    }
    this.#options.onChange();
  }

  async #write(
    part: TranscriptPart | null,
    checkpoint: Checkpoint | null,
    isGrown: boolean,
  ): Promise<CheckpointFate> {
    const { key, claim, writer } = this.#options;
    const { owner, fence } = claim;
    return await writer.write({ ...key, owner, fence, part, isGrown, checkpoint, progress: null });
  }

  /** A part is stored, in place of the one that it begins with, if any. */
  #show(part: TranscriptPart, grown: TranscriptPart | null): void {
    const before = this.#recent.filter((other) => other !== grown && other.eventCount > 0);
    this.#recent = [...before, part];
    let bytes = this.#recent.reduce((sum, each) => sum + each.bytes.length, 0);
    while (this.#recent.length > 1 && bytes > RECENT_BYTES) bytes -= this.#recent.shift()!.bytes.length;
  }
}

function joined(first: TranscriptPart, second: TranscriptPart): TranscriptPart {
  return {
    firstEvent: first.firstEvent,
    eventCount: first.eventCount + second.eventCount,
    bytes: Buffer.concat([first.bytes, second.bytes]),
  };
}
