import type { HrTime, SpanContext, TraceState } from "@opentelemetry/api";
import type { OTLPTraceExporter as Exporter } from "@opentelemetry/exporter-trace-otlp-http";
import type { Resource } from "@opentelemetry/resources";
import { VERSION } from "../../config/package-files.ts";
import type { TraceSettings } from "../../config/telemetry.ts";
import type { Span, SpanExporter } from "./span-queue.ts";

/** The version of OpenTelemetry's semantic conventions whose names the attributes have; those for GenAI still change. */
const SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0";
const NAME = "millrace";

type ReadableSpan = Parameters<Exporter["export"]>[0][number];

/** Loads OpenTelemetry's own packages, which read the further `OTEL_*` variables themselves. */
export async function openExporter(
  { url, protocol }: TraceSettings,
  nodeId: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<SpanExporter> {
  const { SpanKind, SpanStatusCode } = await import("@opentelemetry/api");
  const { OTLPTraceExporter } =
    protocol === "http/json"
      ? await import("@opentelemetry/exporter-trace-otlp-http")
      : await import("@opentelemetry/exporter-trace-otlp-proto");
  const exporter = new OTLPTraceExporter({ url });
  const resource = await resourceOf(nodeId, env);
  const scope = { name: NAME, version: VERSION, schemaUrl: SCHEMA_URL };
  const kinds = { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT };

  const readable = (span: Span): ReadableSpan => {
    const { traceId, spanId, parentId, isParentRemote = false, errorCode } = span;
    const startTime = hrTime(span.startMs);
    const endTime = hrTime(Math.max(span.startMs, span.endMs));
    const traceState = stateOf(span.state);
    return {
      name: span.name,
      kind: kinds[span.kind],
      spanContext: () => contextOf(traceId, spanId, false, traceState),
      ...(parentId !== null && { parentSpanContext: contextOf(traceId, parentId, isParentRemote) }),
      startTime,
      endTime,
      duration: hrTime(Math.max(0, span.endMs - span.startMs)),
      ended: true,
      status:
        errorCode === null
          ? { code: SpanStatusCode.UNSET }
          : { code: SpanStatusCode.ERROR, message: errorCode },
      attributes: span.attributes,
      links: span.links.map((link) => ({ context: contextOf(link.traceId, link.spanId, false) })),
      events: [],
      resource,
      instrumentationScope: scope,
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    };
  };

  return {
    export: (spans) =>
      new Promise((resolve, reject) => {
        // A failure always has an error.
        exporter.export(spans.map(readable), ({ error }) => {
          if (error) reject(error);
          else resolve();
        });
      }),
    close: () => exporter.shutdown(),
  };
}

/** What spans and metrics say of the service that they come from. */
export async function resourceOf(
  nodeId: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Resource> {
  const { detectResources, envDetector, resourceFromAttributes } = await import("@opentelemetry/resources");
  const named = {
    "service.name": env["OTEL_SERVICE_NAME"] || NAME,
    "service.version": VERSION,
    "service.instance.id": nodeId,
  };
  return resourceFromAttributes(named).merge(detectResources({ detectors: [envDetector] }));
}

function contextOf(traceId: string, spanId: string, isRemote: boolean, traceState?: TraceState): SpanContext {
  return { traceId, spanId, traceFlags: 1, isRemote, ...(traceState && { traceState }) };
}

/** The exporter only writes it. */
function stateOf(state: string | null): TraceState | undefined {
  if (state === null) return undefined;
  const unchanged: TraceState = {
    set: () => unchanged,
    unset: () => unchanged,
    get: () => undefined,
    serialize: () => state,
  };
  return unchanged;
}

/** Seconds and nanoseconds. */
function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.min(999_999_999, Math.round((ms - seconds * 1000) * 1e6))];
}
