import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Condition } from "../../src/kit/concurrency.ts";

/** A span as a collector receives it. */
export type CollectedSpan = {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the root of a trace. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** The text of a failure; null for a success. */
  readonly error: string | null;
  readonly resource: Readonly<Record<string, unknown>>;
};

type Value = { readonly [kind: string]: unknown };
type Attributes = readonly { readonly key: string; readonly value: Value }[];
type Batch = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes };
    readonly scopeSpans: readonly { readonly schemaUrl?: string; readonly spans: readonly JsonSpan[] }[];
  }[];
};
type JsonSpan = Pick<CollectedSpan, "name" | "kind" | "traceId" | "spanId"> & {
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Attributes;
  readonly links?: CollectedSpan["links"];
  readonly status: { readonly code?: number; readonly message?: string };
};

/** A real HTTP server on loopback that takes spans as an OpenTelemetry collector does, and keeps those that are JSON. */
export class TraceCollector {
  readonly spans: CollectedSpan[] = [];
  readonly requests: {
    readonly url: string;
    readonly headers: IncomingHttpHeaders;
    readonly body: Buffer;
  }[] = [];
  /** What the next exports are answered. */
  status = 200;
  readonly news = new Condition();
  readonly #server = createServer((request, response) => void this.#take(request, response));

  static async open(): Promise<TraceCollector> {
    const collector = new TraceCollector();
    await new Promise<void>((resolve) => collector.#server.listen(0, "127.0.0.1", resolve));
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The settings of a service that exports to it at once. */
  get flags(): Record<string, string> {
    return {
      OTEL_EXPORTER_OTLP_ENDPOINT: this.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_BSP_SCHEDULE_DELAY: "0",
      OTEL_METRICS_EXPORTER: "none",
    };
  }

  /** The spans of a trace, once it has what is looked for. */
  async trace(
    traceId: string,
    isWhole: (spans: readonly CollectedSpan[]) => boolean,
  ): Promise<CollectedSpan[]> {
    for (;;) {
      const spans = this.spans.filter((span) => span.traceId === traceId);
      if (isWhole(spans)) return spans;
      await this.news.wait();
    }
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = "", headers } = request;
    const body = await buffer(request);
    this.requests.push({ url, headers, body });
    if (this.status === 200 && headers["content-type"] === "application/json")
      this.spans.push(...spansIn(JSON.parse(body.toString("utf8")) as Batch));
    this.news.notify();
    response.writeHead(this.status, { "content-type": "application/json" }).end("{}");
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function spansIn({ resourceSpans }: Batch): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span): CollectedSpan => ({
        name: span.name,
        kind: span.kind,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? "",
        traceState: span.traceState ?? "",
        startMs: Number(span.startTimeUnixNano) / 1e6,
        endMs: Number(span.endTimeUnixNano) / 1e6,
        attributes: plain(span.attributes),
        links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId, spanId })),
        error: span.status.code === 2 ? (span.status.message ?? "") : null,
        resource: plain(resource.attributes),
      })),
    ),
  );
}

function plain(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
