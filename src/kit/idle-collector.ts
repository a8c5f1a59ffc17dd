import { isMainThread } from "node:worker_threads";
import { CALM_SHARE, busyShare } from "./busy-share.ts";
import type { Clock, Timer } from "./clock.ts";
import { trimHeap } from "./trim-heap.ts";

/** What a collector looks at, and does. */
export type ThreadMemory = {
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
