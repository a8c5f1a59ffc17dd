import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { WriteBehind } from "../../kit/write-behind.ts";
import type { LogLine } from "../../model/log-line.ts";
import { type LogUse, ROW_BYTES } from "../../store/apps/logs.ts";
import type { Store } from "../../store/store.ts";
import type { LineBuffer } from "./line-buffer.ts";
import type { DiskReserve } from "../../kit/disk-reserve.ts";

/** A line is written to the disk at most this long after it was printed. */
const FLUSH_MS = 100;
/** Of one write: larger ones keep the database so long that a 202 would wait for it. */
const BATCH_LINES = 500;
const BATCH_BYTES = 512 * 1024;
const RETRY_MS = 1_000;

type LineWriterParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly buffer: LineBuffer;
  readonly share: Pick<LogShare, "keep">;
  /** Some lines have been stored. */
  readonly onStored: () => void;
};

export function lineWriter({ store, clock, log, buffer, share, onStored }: LineWriterParts): WriteBehind {
  const write = async (): Promise<void> => {
    for (let left = buffer.waitingCount; left > 0;) {
      const batch = buffer.waiting(Math.min(left, BATCH_LINES), BATCH_BYTES);
      const used = await store.logs.insert(batch);
      left -= batch.length;
      buffer.markStored(batch.length);
      onStored();
      // The lines are stored even if no room could be made after them: the next write makes it.
      const onFailure = (err: unknown) =>
        log.error({ err }, "could not trim the logs of apps to their limits");
      await share.keep(bytesByApp(batch), used).catch(onFailure);
    }
  };
  return new WriteBehind({
    clock,
    delayMs: FLUSH_MS,
    retryMs: RETRY_MS,
    hasWaiting: () => buffer.waitingCount > 0,
    write,
    onFailure: (err) =>
      log.error({ err, waiting: buffer.waitingCount }, "could not store log lines of apps; retrying"),
  });
}

function bytesByApp(lines: readonly LogLine[]): LogUse[] {
  const groups = Map.groupBy(lines, ({ appNumber }) => appNumber);
  return Array.from(groups, ([appNumber, group]) => ({
    appNumber,
    bytes: group.reduce((sum, { text }) => sum + Buffer.byteLength(text) + ROW_BYTES, 0),
  }));
}

type LogShareParts = {
  readonly store: Pick<Store, "logs">;
  /** Of all apps together. */
  readonly maxBytes: number;
  readonly reserve: Pick<DiskReserve, "isNear" | "shortage">;
};

/** Lines removed after one write: more than it brought, few enough that no other query waits. */
const TRIM_LINES = 1_000;

/** Keeps apps' lines within their limits by removing the oldest; near the disk's reserve each new line costs older ones. */
export class LogShare {
  readonly #parts: LogShareParts;
  #appMaxBytes: (appNumber: number) => number = () => Number.POSITIVE_INFINITY;

  constructor(parts: LogShareParts) {
    this.#parts = parts;
  }

  /** What each app may have, from now on. */
  limitApps(maxBytes: (appNumber: number) => number): void {
    this.#appMaxBytes = maxBytes;
  }

  /** Why no line is stored now; null while lines are. */
  get shortage(): string | null {
    return this.#parts.reserve.shortage;
  }

  /** Makes room for what was just written; `used` is what its apps have now. */
  async keep(added: readonly LogUse[], used: readonly LogUse[]): Promise<void> {
    const { store, maxBytes, reserve } = this.#parts;
    for (const { appNumber, bytes } of used) {
      const own = added.find((each) => each.appNumber === appNumber)?.bytes ?? 0;
      // Twice: what was freed comes back only page by page.
      const owed = reserve.isNear ? 2 * own : 0;
      const tooMuch = Math.max(owed, bytes - Math.min(maxBytes, this.#appMaxBytes(appNumber)));
      if (tooMuch > 0) await store.logs.trim({ appNumber, bytes: tooMuch, limit: TRIM_LINES });
    }
    const tooMuch = (await store.logs.usedBytes()) - maxBytes;
    if (tooMuch > 0) await store.logs.trim({ appNumber: null, bytes: tooMuch, limit: TRIM_LINES });
  }
}
