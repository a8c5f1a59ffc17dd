import { isMainThread } from "node:worker_threads";
import { busyShare, CALM_SHARE } from "./event-loop.ts";
import type { Clock, Timer } from "./clock.ts";
import { DatabaseSync } from "node:sqlite";
import { totalmem } from "node:os";

/** What a collector looks at, and does. */
type ThreadMemory = {
  /** The bytes that it holds, garbage and all. */
  heldBytes(): number;
  /** The part of the time since it was last asked that the thread was at work, from 0 to 1. */
  busyShare(): number;
  /** Collects all garbage and gives free pages back to the system. */
  collect(): void;
};

const LOOK_MS = 10_000;
/** Less is not worth a collection. */
const GROWN_BYTES = 4 * 1024 * 1024;
/** One that gave back so much is followed by another: threads end and free what they held a while after a load. */
const GAINED_BYTES = 1024 * 1024;

/**
 * Collects garbage when a thread has nothing to do. V8 collects when it allocates, so after a load all its garbage
 * stays until the next one: 300 slow readers left 800 MB behind.
 */
export class IdleCollector {
  readonly #memory: ThreadMemory;
  readonly #timer: Timer;
  /** The least that it has come to since the last collection. */
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

/**
 * Looks after the memory of the thread that calls it, if Node was started with `--expose-gc` as `bin/millrace` does;
 * from the main thread also after the pages that all threads have freed.
 */
export function collectWhenIdle(clock: Clock): IdleCollector | null {
  const { gc } = globalThis;
  if (!gc) return null;
  return new IdleCollector(clock, {
    heldBytes: isMainThread ? () => process.memoryUsage.rss() : ownBytes,
    busyShare: busyShare(),
    collect: () => {
      // The only kind after which the young generation shrinks too: 32 MB in each thread.
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

/** What SQLite says when an entry point answers anything but 0, as `malloc_trim` does if it gave pages back. */
const CALLED = /^error during initialization/;

/**
 * Gives the free pages within the C heap back to the system; false if there were none, or if this is not glibc. By
 * itself glibc gives back only what is free at the heap's end: after a load, a few small blocks there kept 40 MB.
 *
 * Node cannot call `malloc_trim`. SQLite can: it calls any function of a library that it is told is the entry point of
 * an extension. The argument that it passes means how much is to stay free at the heap's end, and does no harm.
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

/** How much memory this process may use: the machine's, or what its control group leaves of that. */
export function ownMemoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
