import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { WriteBehind } from "../../kit/write-behind.ts";
import type { LogLine } from "../../model/log-line.ts";
import { ROW_BYTES } from "../../store/apps/logs.ts";
import type { Store } from "../../store/store.ts";
import type { LineBuffer } from "./line-buffer.ts";
import type { Added, LogShare } from "./log-share.ts";

/** A line is on its way to the disk at most this long after it was printed. */
const FLUSH_MS = 100;
/** Of one write: larger ones keep the database so long that a 202 would wait for it. */
const BATCH_LINES = 500;
const BATCH_BYTES = 512 * 1024;
const RETRY_MS = 1_000;

export type LineWriterParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly buffer: LineBuffer;
  readonly share: Pick<LogShare, "keep">;
  /** Some lines have been stored. */
  readonly onStored: () => void;
};

/** Writes a buffer's lines behind, in batches. */
export class LineWriter {
  readonly #parts: LineWriterParts;
  readonly #behind: WriteBehind;

  constructor(parts: LineWriterParts) {
    const { clock, buffer, log } = parts;
    this.#parts = parts;
    this.#behind = new WriteBehind({
      clock,
      delayMs: FLUSH_MS,
      retryMs: RETRY_MS,
      hasWaiting: () => buffer.waitingCount > 0,
      write: () => this.#write(),
      onFailure: (err) =>
        log.error({ err, waiting: buffer.waitingCount }, "could not store log lines of apps; retrying"),
    });
  }

  /** There is something to write. */
  note(): void {
    this.#behind.note();
  }

  /** Resolves when every line that waits now is stored, or could not be. */
  async flush(): Promise<void> {
    await this.#behind.flush();
  }

  /** Stores what waits; gives it up when that fails for longer than `patienceMs`. */
  async stop(patienceMs: number): Promise<void> {
    const { buffer, log } = this.#parts;
    await this.#behind.settle(patienceMs, () =>
      log.error({ lost: buffer.abandon() }, "could not store log lines of apps; they are lost"),
    );
  }

  /** All that waits at the beginning. */
  async #write(): Promise<void> {
    const { store, log, buffer, share, onStored } = this.#parts;
    for (let left = buffer.waitingCount; left > 0;) {
      const batch = buffer.waiting(Math.min(left, BATCH_LINES), BATCH_BYTES);
      const used = await store.logs.insert(batch);
      left -= batch.length;
      buffer.markStored(batch.length);
      onStored();
      // Lines that are stored are stored, even if no room could be made after them: the next write makes it.
      await share
        .keep(bytesByApp(batch), used)
        .catch((error: unknown) =>
          log.error({ err: error }, "could not trim the logs of apps to their limits"),
        );
    }
  }
}

function bytesByApp(lines: readonly LogLine[]): Added[] {
  return Array.from(
    Map.groupBy(lines, ({ appNumber }) => appNumber),
    ([appNumber, group]) => ({
      appNumber,
      bytes: group.reduce((sum, { text }) => sum + Buffer.byteLength(text) + ROW_BYTES, 0),
    }),
  );
}
