import type { Classes, Sink } from "./page.ts";
import { type Metric, type MetricName, METRICS } from "./table.ts";

type Attributes = Readonly<Record<string, string>>;

/** A sample as OpenTelemetry has it. */
export type Point<Value> = { readonly attributes: Attributes; readonly value: Value };

/** Values in classes whose bounds are in seconds, or whatever the histogram counts. */
type ExplicitValue = {
  readonly bounds: readonly number[];
  /** With that of values above all bounds. */
  readonly counts: readonly number[];
  readonly count: number;
  readonly sum: number;
};

type ExponentialValue = {
  readonly scale: number;
  readonly zeros: number;
  readonly offset: number;
  readonly counts: readonly number[];
  readonly count: number;
  readonly sum: number;
};

/** A metric with some of its points. */
export type PointMetric = Pick<Metric, "kind" | "help"> & {
  readonly name: MetricName;
  readonly numbers: Point<number>[];
  readonly explicit: Point<ExplicitValue>[];
  readonly exponential: Point<ExponentialValue>[];
};

/** As many as a collector takes in one request without trouble, about a megabyte. */
const MAX_POINTS = 4_000;

/** Takes metrics as points in place of text; what is about the hosted original alone is left out. */
export class Points implements Sink {
  #metrics: PointMetric[] = [];
  #current: PointMetric | null = null;
  #count = 0;

  /** There is enough for a request. */
  get isFull(): boolean {
    return this.#count >= MAX_POINTS;
  }

  /** What came since the last time. */
  take(): readonly PointMetric[] {
    const metrics = this.#metrics.filter(
      ({ numbers, explicit, exponential }) => numbers.length + explicit.length + exponential.length > 0,
    );
    this.#metrics = [];
    this.#count = 0;
    // The same metric may go on in the next request.
    if (this.#current) this.begin(this.#current.name);
    return metrics;
  }

  begin(name: MetricName): void {
    const { kind, help }: Metric = METRICS[name];
    const isHosted = name.startsWith("cerebrium_");
    this.#current = isHosted ? null : { name, kind, help, numbers: [], explicit: [], exponential: [] };
    if (this.#current) this.#metrics.push(this.#current);
  }

  sample(labels: string, value: number): void {
    if (!this.#current) return;
    this.#current.numbers.push({ attributes: attributesOf(labels), value });
    this.#count += 1;
  }

  histogram(labels: string, classes: Classes, unit: number): void {
    if (!this.#current) return;
    const { boundsMs, count, sumMs, exponential = null } = classes;
    const attributes = attributesOf(labels);
    const whole = { count, sum: sumMs / unit };
    this.#count += 1;
    if (exponential) {
      const { scale, zeros, offset, counts } = exponential;
      this.#current.exponential.push({ attributes, value: { ...whole, scale, zeros, offset, counts } });
      return;
    }
    const inBounds = classes.counts.reduce((sum, each) => sum + each, 0);
    const bounds = boundsMs.map((bound) => bound / unit);
    const counts = [...classes.counts, Math.max(0, count - inBounds)];
    this.#current.explicit.push({ attributes, value: { ...whole, bounds, counts } });
  }

  end(): void {
    this.#current = null;
  }
}

/** A label and its text, from where the one before ended. */
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)",?/y;

/** Labels are text already, for the scrapes: read back here, once a minute. */
function attributesOf(labels: string): Attributes {
  const attributes: Record<string, string> = {};
  LABEL.lastIndex = 0;
  for (let pair = LABEL.exec(labels); pair; pair = LABEL.exec(labels)) {
    const [, name = "", text = ""] = pair;
    attributes[name] = text.replaceAll(/\\./g, unescape);
  }
  return attributes;
}

function unescape(escaped: string): string {
  return escaped === "\\n" ? "\n" : escaped.slice(1);
}
