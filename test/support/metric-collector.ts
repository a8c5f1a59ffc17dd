import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Condition } from "../../src/kit/concurrency.ts";
import { until } from "./until.ts";

type Pairs = readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
type JsonPoint = { readonly attributes?: Pairs; readonly [member: string]: unknown };
type JsonMetric = {
  readonly name: string;
  readonly unit: string;
  readonly [kind: string]: unknown;
};
type Batch = {
  readonly resourceMetrics: readonly {
    readonly resource: { readonly attributes: Pairs };
    readonly scopeMetrics: readonly { readonly metrics: readonly JsonMetric[] }[];
  }[];
};

/** A point as a collector receives it. */
export type MetricPoint = {
  readonly name: string;
  readonly kind: string;
  readonly unit: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly value: JsonPoint;
  readonly resource: Readonly<Record<string, string>>;
};

const KINDS = ["sum", "gauge", "histogram", "exponentialHistogram"];

/** A real HTTP server on loopback that takes metrics as an OpenTelemetry collector does. */
export class MetricCollector {
  readonly points: MetricPoint[] = [];
  /** What the next exports are answered. */
  status = 200;
  refused = 0;
  readonly #news = new Condition();
  readonly #server = createServer((request, response) => void this.#take(request, response));

  static async open(): Promise<MetricCollector> {
    const collector = new MetricCollector();
    await new Promise<void>((resolve) => void collector.#server.listen(0, "127.0.0.1", resolve));
    return collector;
  }

  /** The settings of a service that exports to it. */
  get flags(): Record<string, string> {
    const { port } = this.#server.address() as AddressInfo;
    return {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_TRACES_EXPORTER: "none",
    };
  }

  async until(holds: () => boolean): Promise<void> {
    await until("the collector has it", holds, this.#news);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    if (this.status === 200) this.points.push(...pointsIn(JSON.parse(body.toString("utf8")) as Batch));
    else this.refused += 1;
    response.writeHead(this.status, { "content-type": "application/json" }).end("{}");
    this.#news.notify();
  }
}

function pointsIn({ resourceMetrics }: Batch): MetricPoint[] {
  return resourceMetrics.flatMap(({ resource, scopeMetrics }) =>
    scopeMetrics.flatMap(({ metrics }) =>
      metrics.flatMap((metric) =>
        KINDS.flatMap((kind) => {
          const { dataPoints = [] } = (metric[kind] ?? {}) as { dataPoints?: readonly JsonPoint[] };
          return dataPoints.map((value) => ({
            name: metric.name,
            kind,
            unit: metric.unit,
            attributes: read(value.attributes ?? []),
            value,
            resource: read(resource.attributes),
          }));
        }),
      ),
    ),
  );
}

function read(pairs: Pairs): Record<string, string> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, value.stringValue ?? ""]));
}
