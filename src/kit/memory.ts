import { isMainThread } from "node:worker_threads";
import { busyShare, CALM_SHARE } from "./event-loop.ts";
import type { Clock, Timer } from "./clock.ts";
import { DatabaseSync } from "node:sqlite";
import { totalmem } from "node:os";

type ThreadMemory = {
  /** Including garbage. */
  heldBytes(): number;
  /** See `busyShare` of `event-loop.ts`. */
  busyShare(): number;
  /** Collects all garbage and returns free pages to the system. */
  collect(): void;
};

const LOOK_MS = 10_000;
/** Less is not worth a collection. */
const GROWN_BYTES = 4 * 1024 * 1024;
/** A collection that frees this much is followed by another: threads end, and free memory, a while after a load. */
const GAINED_BYTES = 1024 * 1024;

/** Collects garbage when a thread is idle. V8 collects only when it allocates: 300 slow readers left 800 MB behind. */
export class IdleCollector {
  readonly #memory: ThreadMemory;
  readonly #timer: Timer;
  /** The minimum since the last collection. */
  #leftBytes = 0;
  #hasGained = false;

  constructor(clock: Clock, memory: ThreadMemory) {
    this.#memory = memory;
    this.#timer = clock.every(LOOK_MS, () => this.#look());
  }

  stop(): void {
    this.#timer.cancel();
  }

  #look(): void {
    const memory = this.#memory;
    // A collection takes some 50 ms.
    if (memory.busyShare() > CALM_SHARE) return;
    const heldBytes = memory.heldBytes();
    const hasGrown = heldBytes >= this.#leftBytes + GROWN_BYTES;
    this.#leftBytes = Math.min(this.#leftBytes, heldBytes);
    if (!hasGrown && !this.#hasGained) return;
    memory.collect();
    this.#leftBytes = memory.heldBytes();
    this.#hasGained = heldBytes - this.#leftBytes >= GAINED_BYTES;
  }
}

/** Collects this thread's garbage, if Node runs with `--expose-gc`; in the main thread, also the process's free pages. */
export function collectWhenIdle(clock: Clock): IdleCollector | null {
  const { gc } = globalThis;
  if (!gc) return null;
  return new IdleCollector(clock, {
    heldBytes: isMainThread ? () => process.memoryUsage.rss() : ownBytes,
    busyShare: busyShare(),
    collect: () => {
      // Only this kind shrinks the young generation too: 32 MB in each thread.
      gc({ type: "major", execution: "sync", flavor: "last-resort" });
      // Not beside a load: it holds up every thread that allocates.
      if (isMainThread) trimHeap();
    },
  });
}

function ownBytes(): number {
  const { heapTotal, external } = process.memoryUsage();
  return heapTotal + external;
}

/** SQLite's error for an entry point that does not return 0, as `malloc_trim` if it has freed pages. */
const CALLED = /^error during initialization/;

/**
 * Returns free pages of the C heap to the system; false if there were none, or without glibc. By itself, glibc returns only
 * the heap's end: after a load, a few small blocks there kept 40 MB. Node cannot call `malloc_trim`, but SQLite can, as the
 * entry point of an extension; the argument that it passes (how much may stay free at the end) does no harm.
 */
export function trimHeap(): boolean {
  const database = new DatabaseSync(":memory:", { allowExtension: true });
  try {
    database.loadExtension("libc.so.6", "malloc_trim");
    return false;
  } catch (error) {
    return CALLED.test((error as Error).message);
  } finally {
    database.close();
  }
}

/** The memory that this process may use: the machine's, or the limit of its control group. */
export function ownMemoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
