import type { Readable } from "node:stream";
import type { LineCutter } from "../kit/line-cutter.ts";
import { READING_PACE } from "./reading-pace.ts";
import type { ReadingPace } from "./reading-pace.ts";

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
