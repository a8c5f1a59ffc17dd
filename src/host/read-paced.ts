import type { Readable } from "node:stream";
import type { LineCutter } from "../kit/line-cutter.ts";

/** Of every 5 ms, 1 ms. */
const SHARE_MS = 1;
const WINDOW_MS = 5;

/**
 * Reading what apps print may take a fifth of the service's time, however much that is: an app that prints
 * without end waits for its own output, and no other waits with it. (Measured: beside a subprocess that printed
 * 1.5 million lines a second a call took 1.3 s.)
 */
export class ReadingPace {
  #usedMs = 0;
  /** The next window is on its way. */
  #isTicking = false;
  /**
   * Readers that go on when there is time again, by whom they read for. Each owner gets a turn before any gets
   * a second one, so an owner with many processes is not read more often than an owner with one.
   */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Whether no time is left, when a reader has just used so much more. */
  isSpent(moreMs = 0): boolean {
    return this.#usedMs + moreMs >= SHARE_MS;
  }

  /** Counts what a reader has used. */
  spend(ms: number): void {
    this.#usedMs += ms;
    if (this.#isTicking) return;
    this.#isTicking = true;
    setTimeout(() => this.#begin(), WINDOW_MS);
  }

  /** Calls `goOn` when there is time again; only a reader that has spent some waits. */
  wait(goOn: () => void, owner = ""): void {
    const readers = this.#waiting.get(owner);
    if (readers) readers.push(goOn);
    else this.#waiting.set(owner, [goOn]);
  }

  #begin(): void {
    this.#isTicking = false;
    this.#usedMs = 0;
    // Those who come to wait meanwhile come after all that wait now.
    for (let left = this.#count(); left > 0 && !this.isSpent(); left--) this.#next()?.();
  }

  #count(): number {
    let count = 0;
    for (const readers of this.#waiting.values()) count += readers.length;
    return count;
  }

  /** The reader whose turn it is: of the owner who waits longest, the one that waits longest. */
  #next(): (() => void) | undefined {
    const [first] = this.#waiting;
    if (!first) return undefined;
    const [owner, readers] = first;
    const reader = readers.shift();
    this.#waiting.delete(owner);
    if (readers.length > 0) this.#waiting.set(owner, readers);
    return reader;
  }
}

/** Of this process. */
const READING_PACE = new ReadingPace();

/** Looks at the clock are far between: one costs as much as a short line. */
const LINES_BETWEEN_LOOKS = 32;

export type PaceOptions = {
  readonly pace?: ReadingPace;
  /** For whom it is read: all that is read for one has one turn among those of others. */
  readonly owner?: string;
};

/**
 * Reads what a process prints to its end, as fast as the pace allows: meanwhile the process waits for us. Resolves
 * when the last line was handed on, also where the stream breaks off; rejects with what the lines' reader throws,
 * and then nothing more is read.
 */
export async function readPaced(
  stream: Readable,
  cutter: LineCutter,
  { pace = READING_PACE, owner = "" }: PaceOptions = {},
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  /** There are whole lines that were not handed on. */
  let isBehind = false;
  /** The end may come while that is so. */
  let hasEnded = false;
  let isOver = false;

  /** Does a part of the work; what it throws ends the reading. */
  const attempt = (work: () => void): void => {
    if (isOver) return;
    try {
      work();
      if (!hasEnded || isBehind) return;
      isOver = true;
      cutter.end();
      resolve();
    } catch (error) {
      isOver = true;
      stream.destroy();
      reject(error);
    }
  };
  const read = (): void => {
    const startedAt = performance.now();
    let count = 0;
    const mayGoOn = (): boolean =>
      ++count % LINES_BETWEEN_LOOKS !== 0 || !pace.isSpent(performance.now() - startedAt);
    isBehind = !cutter.cut(mayGoOn);
    pace.spend(performance.now() - startedAt);
    if (isBehind || pace.isSpent()) {
      stream.pause();
      pace.wait(isBehind ? () => attempt(read) : () => stream.resume(), owner);
    } else {
      stream.resume();
    }
  };
  stream.on("data", (data: Buffer) => {
    cutter.push(data);
    attempt(read);
  });
  for (const event of ["end", "error", "close"]) stream.on(event, () => attempt(() => (hasEnded = true)));
  stream.resume();
  await promise;
}
