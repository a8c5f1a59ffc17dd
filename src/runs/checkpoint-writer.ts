import { Batcher } from "../kit/batcher.ts";
import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import { retry } from "../kit/retry.ts";
import type { CheckpointWrite } from "../store/runs/checkpoints.ts";
import type { Store } from "../store/store.ts";

/** `lost`: another service has the run by now. `stopped`: this one stops, and the storage does not answer. */
export type CheckpointFate = "stored" | "lost" | "stopped";

const RETRY_MS = 1_000;
/** Of a statement; apps take turns. */
const WRITES = {
  maxItems: 256,
  maxWeight: 2 * 1024 * 1024,
  weightOf: ({ part, checkpoint }: CheckpointWrite) =>
    (part?.bytes.length ?? 0) + (checkpoint?.value.length ?? 0),
  keyOf: ({ appNumber }: CheckpointWrite) => appNumber,
};

type CheckpointWriterParts = {
  readonly store: Pick<Store, "checkpoints">;
  readonly clock: Clock;
  readonly log: Log;
};

/** Stores what runs tell on their way, for those that wait for it: while the storage is away, they wait too. */
export class CheckpointWriter {
  readonly #parts: CheckpointWriterParts;
  readonly #writes: Batcher<CheckpointWrite, Set<string>>;
  #isStopping = false;

  constructor(parts: CheckpointWriterParts) {
    const { store } = parts;
    this.#parts = parts;
    this.#writes = new Batcher(async (batch) => new Set(await store.checkpoints.write(batch)), WRITES);
  }

  async write(write: CheckpointWrite): Promise<CheckpointFate> {
    const { clock, log } = this.#parts;
    const held = await retry(() => this.#writes.add(write), {
      clock,
      delayMs: () => RETRY_MS,
      shouldRetry: (error) => {
        log.error(
          { err: error, runId: write.id },
          "could not store a checkpoint or chunks of a run; retrying",
        );
        return !this.#isStopping;
      },
    });
    if (!held) return "stopped";
    return held.has(write.id) ? "stored" : "lost";
  }

  /** No write is tried again from now on. */
  stop(): Promise<void> {
    this.#isStopping = true;
    return Promise.resolve();
  }
}
