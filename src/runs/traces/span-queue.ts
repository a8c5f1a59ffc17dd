import type { TraceSettings } from "../../config/telemetry.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { WriteBehind } from "../../kit/write-behind.ts";

/** A span that has ended. Times are epoch milliseconds, with fractions. */
export type Span = {
  readonly name: string;
  readonly kind: "internal" | "server" | "client";
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | null;
  /** The parent is the caller's. */
  readonly isParentRemote?: boolean;
  readonly state: string | null;
  readonly startMs: number;
  readonly endMs: number;
  /** Null for a success. */
  readonly errorCode: string | null;
  readonly attributes: SpanAttributes;
  readonly links: readonly SpanRef[];
};

export type SpanAttributes = Readonly<Record<string, string | number | boolean | string[]>>;
export type SpanRef = { readonly traceId: string; readonly spanId: string };

export type SpanExporter = {
  /** Rejects if they did not arrive; a further try would be too late. */
  export(spans: readonly Span[]): Promise<void>;
  close(): Promise<void>;
};

type SpanQueueParts = Pick<TraceSettings, "maxWaiting" | "batchSize" | "delayMs"> & {
  readonly exporter: SpanExporter;
  readonly clock: Clock;
  readonly log: Log;
};

/** How long a stop waits for the last export. */
const LAST_MS = 2_000;

/** Spans that wait for their export. However slow the collector is, they cost no more than their room in memory. */
export class SpanQueue {
  /** Since the start: spans that arrived, and spans that never will. */
  exported = 0;
  dropped = 0;
  readonly #parts: SpanQueueParts;
  readonly #behind: WriteBehind;
  #waiting: Span[] = [];
  #isClosed = false;
  /** The log has said that spans are dropped, and not yet that they arrive again. */
  #hasWarned = false;

  constructor(parts: SpanQueueParts) {
    this.#parts = parts;
    this.#behind = new WriteBehind({
      clock: parts.clock,
      delayMs: parts.delayMs,
      retryMs: parts.delayMs,
      hasWaiting: () => this.#waiting.length > 0,
      write: () => this.#write(),
      onFailure: (err) => parts.log.error({ err }, "spans could not be exported"),
    });
  }

  add(span: Span): void {
    const { maxWaiting, batchSize } = this.#parts;
    if (this.#isClosed || this.#waiting.length >= maxWaiting) return this.drop(1, null);
    this.#waiting.push(span);
    if (this.#waiting.length >= batchSize && this.#behind.isFree) this.#behind.begin();
    else this.#behind.note();
  }

  /** Exports what waits, as far as the collector takes it in time. */
  async close(): Promise<void> {
    const { clock, exporter } = this.#parts;
    await withTimeout(LAST_MS, this.#behind.flush(), clock);
    this.#isClosed = true;
    this.#behind.cancel();
    const left = this.#waiting.length;
    this.#waiting = [];
    if (left > 0) this.drop(left, null);
    await withTimeout(LAST_MS, exporter.close(), clock);
  }

  async #write(): Promise<void> {
    const { batchSize, exporter, log } = this.#parts;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, batchSize);
      this.#waiting = this.#waiting.slice(batch.length);
      try {
        await exporter.export(batch);
        this.exported += batch.length;
        if (this.#hasWarned) log.info("spans are exported again");
        this.#hasWarned = false;
      } catch (error) {
        this.drop(batch.length, error);
      }
    }
  }

  /** Counts spans that never arrive. */
  drop(count: number, error: unknown): void {
    this.dropped += count;
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const text =
      "the collector takes no spans, or takes them too slowly: spans are dropped, and counted in /metrics";
    this.#parts.log.warn({ err: error ?? undefined, dropped: this.dropped }, text);
  }
}
