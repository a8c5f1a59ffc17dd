import type { ExponentialCounts } from "../../kit/exponential-counts.ts";
import type { Exemplar } from "../../kit/histograms.ts";
import { type Metric, type MetricName, METRICS } from "./table.ts";

/** The text form of Prometheus, or OpenMetrics, which also has exemplars. */
export type Form = "text" | "openmetrics";

export const CONTENT_TYPES: Readonly<Record<Form, string>> = {
  text: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/** Which form a scraper asks for by its `Accept`. */
export function formOf(accept: string | undefined): Form {
  return accept?.includes("application/openmetrics-text") ? "openmetrics" : "text";
}

/** Labels as they stand between the braces; put together once for many samples. */
export function labelText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, text]) => `${name}="${text.replace(/["\\\n]/g, escape)}"`)
    .join(",");
}

function escape(character: string): string {
  return character === "\n" ? "\\n" : `\\${character}`;
}

/** Values in classes. Bounds and sum are in milliseconds, or whatever the histogram counts. */
export type Classes = {
  /** The rising upper bound of each class; larger values are in none. */
  readonly boundsMs: readonly number[];
  readonly counts: readonly number[];
  readonly count: number;
  readonly sumMs: number;
  readonly exemplars?: readonly (Exemplar | undefined)[] | null;
  /** The same values in seconds; null or absent if they were not counted so. */
  readonly exponential?: ExponentialCounts | null;
};

/** Takes metric after metric, and each sample of a metric after its head. */
export type Sink = {
  begin(name: MetricName): void;
  sample(labels: string, value: number): void;
  histogram(labels: string, classes: Classes, unit: typeof IN_SECONDS | typeof AS_IT_IS): void;
};

/** What a histogram's values are divided by: seconds for milliseconds, or as they are. */
export const IN_SECONDS = 1000;
export const AS_IT_IS = 1;

/** Long enough that a piece costs little beside its text. */
const PIECE_CHARS = 64 * 1024;

/** Writes what it takes as text. */
export class Page implements Sink {
  readonly #form: Form;
  #text = "";
  #isBegun = false;
  #name = "";
  /** The `le` of each class, by its bounds. */
  readonly #edges = new Map<readonly number[], readonly string[]>();

  constructor(form: Form) {
    this.#form = form;
  }

  /** There is enough for a piece of the answer. */
  get isFull(): boolean {
    return this.#text.length >= PIECE_CHARS;
  }

  /** What was written since the last time. */
  take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }

  begin(name: MetricName): void {
    const { kind, help }: Metric = METRICS[name];
    // OpenMetrics names the family, of which each sample of a counter has `_total`, and allows no empty line.
    const isOpen = this.#form === "openmetrics";
    const family = isOpen && kind === "counter" ? name.replace(/_total$/, "") : name;
    const gap = this.#isBegun && !isOpen ? "\n" : "";
    this.#text += `${gap}# HELP ${family} ${help}\n# TYPE ${family} ${kind}\n`;
    this.#isBegun = true;
    this.#name = name;
  }

  sample(labels: string, value: number): void {
    this.#text += labels === "" ? `${this.#name} ${value}\n` : `${this.#name}{${labels}} ${value}\n`;
  }

  histogram(labels: string, classes: Classes, unit: typeof IN_SECONDS | typeof AS_IT_IS): void {
    const { boundsMs, counts, count, sumMs, exemplars = null } = classes;
    const edges = this.#edgesOf(boundsMs, unit);
    const head = `${this.#name}_bucket{${labels}${labels === "" ? "" : ","}`;
    let total = 0;
    for (let i = 0; i < edges.length; i++) {
      total = i < counts.length ? total + counts[i]! : count;
      const exemplar = exemplars && this.#exemplar(exemplars[i], unit);
      this.#text += `${head}${edges[i]} ${total}${exemplar ?? ""}\n`;
    }
    const among = labels === "" ? "" : `{${labels}}`;
    this.#text += `${this.#name}_sum${among} ${sumMs / unit}\n${this.#name}_count${among} ${count}\n`;
  }

  end(): void {
    if (this.#form === "openmetrics") this.#text += "# EOF\n";
  }

  #edgesOf(boundsMs: readonly number[], unit: number): readonly string[] {
    const known = this.#edges.get(boundsMs);
    // The same bounds are in seconds for us, and in milliseconds for the hosted original.
    const unitEdge = `le="${this.#number((boundsMs[0] ?? 0) / unit)}"}`;
    if (known && (boundsMs.length === 0 || known[0] === unitEdge)) return known;
    const edges = [...boundsMs.map((bound) => `le="${this.#number(bound / unit)}"}`), 'le="+Inf"}'];
    this.#edges.set(boundsMs, edges);
    return edges;
  }

  /** OpenMetrics writes a whole number of `le` with a decimal. */
  #number(value: number): string {
    return this.#form === "openmetrics" && Number.isInteger(value) ? `${value}.0` : String(value);
  }

  #exemplar(exemplar: Exemplar | undefined, unit: number): string | null {
    if (!exemplar || this.#form === "text") return null;
    const { traceId, ms, at } = exemplar;
    return ` # {${labelText({ trace_id: traceId })}} ${ms / unit} ${at / 1000}`;
  }
}
