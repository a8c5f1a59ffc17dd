import type { MetricExportSettings } from "../../config/metric-export.ts";
import { type Clock, type Timer, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { Samples } from "./node-metrics.ts";
import type { MetricExporter } from "./otlp.ts";
import { Points } from "./points.ts";
import { type Scraper, written } from "./scrape.ts";

type ExportParts = {
  readonly settings: MetricExportSettings;
  readonly nodeId: string;
  readonly scraper: Pick<Scraper, "measure">;
  readonly clock: Clock;
  readonly log: Log;
};

/** How long a stop waits for the last export. */
const LAST_MS = 2_000;

/** Sends all metrics to a collector at each interval. One that is slow or away costs no more than an export in progress. */
export class MetricExport {
  readonly #parts: ExportParts;
  readonly #exporter: MetricExporter;
  readonly #startMs: number;
  readonly #timer: Timer;
  #exporting: Promise<void> | null = null;
  /** The log has said that they do not arrive, and not yet that they do again. */
  #hasWarned = false;

  private constructor(parts: ExportParts, exporter: MetricExporter) {
    const { clock, settings } = parts;
    this.#parts = parts;
    this.#exporter = exporter;
    this.#startMs = clock.now();
    this.#timer = clock.every(settings.intervalMs, () => void this.#begin());
  }

  /** Loads what exports only now: it takes time and memory. */
  static async open(parts: ExportParts): Promise<MetricExport> {
    const { openMetricExporter } = await import("./otlp.ts");
    return new MetricExport(parts, await openMetricExporter(parts.settings, parts.nodeId));
  }

  /** Exports what is true now, as far as the collector takes it in time. */
  async close(): Promise<void> {
    const { clock } = this.#parts;
    this.#timer.cancel();
    await withTimeout(LAST_MS, this.#begin(), clock);
    await withTimeout(LAST_MS, this.#exporter.close(), clock);
  }

  /** One export at a time: all that it tells are sums, so a missed one loses nothing. */
  async #begin(): Promise<void> {
    this.#exporting ??= this.#export().finally(() => (this.#exporting = null));
    await this.#exporting;
  }

  async #export(): Promise<void> {
    const { scraper, clock, log } = this.#parts;
    try {
      const scrape = await scraper.measure(new Samples());
      const span = { startMs: this.#startMs, endMs: clock.now() };
      for await (const metrics of written(new Points(), scrape)) await this.#exporter.export(metrics, span);
      if (this.#hasWarned) log.info("metrics are exported again");
      this.#hasWarned = false;
    } catch (err) {
      if (!this.#hasWarned) log.warn({ err }, "the collector takes no metrics; they are tried again");
      this.#hasWarned = true;
    }
  }
}
