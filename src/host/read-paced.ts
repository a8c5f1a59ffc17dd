import type { Readable } from "node:stream";
import type { LineCutter } from "../kit/line-cutter.ts";

/** Of every 5 ms, 1 ms. */
const SHARE_MS = 1;
const WINDOW_MS = 5;

/**
 * Limits reading the output of apps to a fifth of the service's time. An app that prints without end slows down only
 * itself. (Measured without it: beside a subprocess that printed 1.5 million lines a second a call took 1.3 s.)
 */
export class ReadingPace {
  #usedMs = 0;
  #isTicking = false;
  /** Waiting readers by owner. Owners take turns, so an owner with many processes is not read more often. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Whether no time is left after `moreMs` more. */
  isSpent(moreMs = 0): boolean {
    return this.#usedMs + moreMs >= SHARE_MS;
  }

  spend(ms: number): void {
    this.#usedMs += ms;
    if (this.#isTicking) return;
    this.#isTicking = true;
    setTimeout(() => this.#begin(), WINDOW_MS);
  }

  /** Calls `goOn` when there is time again. */
  wait(goOn: () => void, owner = ""): void {
    const readers = this.#waiting.get(owner);
    if (readers) readers.push(goOn);
    else this.#waiting.set(owner, [goOn]);
  }

  #begin(): void {
    this.#isTicking = false;
    this.#usedMs = 0;
    // Readers that start to wait meanwhile come after all present ones.
    for (let left = [...this.#waiting.values()].flat().length; left > 0 && !this.isSpent(); left--)
      this.#next()?.();
  }

  /** The longest waiting reader of the longest waiting owner. */
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

const READING_PACE = new ReadingPace();

/** Reading the clock costs as much as a short line. */
const LINES_BETWEEN_LOOKS = 32;

export type PaceOptions = {
  readonly pace?: ReadingPace;
  /** All streams of one owner share one turn. */
  readonly owner?: string;
};

/** Reads output to its end, also if it breaks off; the process blocks meanwhile. Rejects with the error of the line reader. */
export async function readPaced(
  stream: Readable,
  cutter: LineCutter,
  { pace = READING_PACE, owner = "" }: PaceOptions = {},
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  /** Complete lines are waiting. */
  let isBehind = false;
  let hasEnded = false;
  let isOver = false;

  /** Does a part of the work; an error ends the reading. */
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
