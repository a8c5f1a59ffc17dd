import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../kit/log.ts";
import type { LogLine } from "../../model/log-line.ts";
import { ROW_BYTES } from "../../store/log-removal.ts";
import type { LogUse } from "../../store/log-removal.ts";
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
  readonly log: Log;
  readonly buffer: LineBuffer;
  readonly share: Pick<LogShare, "keep">;
  /** Some lines have been stored. */
  readonly onStored: () => void;
};

/** Writes a buffer's lines behind, in batches. */
export class LineWriter {
  readonly #parts: LineWriterParts;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  /** The latest write did. */
  #hasFailed = false;

  constructor(parts: LineWriterParts) {
    this.#parts = parts;
  }

  /** There is something to write. */
  note(): void {
    this.#timer ??= setTimeout(() => void this.flush(), this.#hasFailed ? RETRY_MS : FLUSH_MS);
  }

  /** Resolves when every line that waits now is stored, or could not be. */
  async flush(): Promise<void> {
    // What a write under way does not take comes with the next.
    if (this.#writing) await this.#writing;
    await this.#write();
  }

  /** Stores what waits; gives it up when that fails for longer than `patienceMs`. */
  async stop(patienceMs: number): Promise<void> {
    const { buffer, log } = this.#parts;
    const deadline = performance.now() + patienceMs;
    while (buffer.waitingCount > 0) {
      await this.flush();
      if (!this.#hasFailed) continue;
      if (performance.now() < deadline) await sleep(RETRY_MS / 10);
      else log.error({ lost: buffer.abandon() }, "lines of apps could not be stored and are lost");
    }
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #write(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
      if (this.#parts.buffer.waitingCount > 0) this.note();
    });
    return this.#writing;
  }

  /** All that waits at the beginning. */
  async #writeAll(): Promise<void> {
    const { store, log, buffer, share, onStored } = this.#parts;
    for (let left = buffer.waitingCount; left > 0;) {
      const batch = buffer.waiting(Math.min(left, BATCH_LINES), BATCH_BYTES);
      let used: readonly LogUse[];
      try {
        used = await store.logs.insert(batch);
      } catch (error) {
        const waiting = buffer.waitingCount;
        log.error({ err: error, waiting }, "lines of apps could not be stored; trying again");
        this.#hasFailed = true;
        return;
      }
      this.#hasFailed = false;
      left -= batch.length;
      buffer.markStored(batch.length);
      onStored();
      // Lines that are stored are stored, even if no room could be made after them: the next write makes it.
      await share
        .keep(bytesByApp(batch), used)
        .catch((error: unknown) =>
          log.error({ err: error }, "lines of apps could not be kept to their share"),
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
