import { section } from "./row.ts";

/** Traces of OpenTelemetry. */
export const TRACES = {
  ...section("docs/telemetry.md: The trace of a call", {
    "traces.w3c": "A caller's W3C trace is continued; a `traceparent` that is not valid is none.",
    "traces.token": "What a caller says about sampling counts only with a valid token.",
    "traces.run-id": "The id of a run never comes from its trace.",
    "traces.record": "The record of a run has the id of its trace.",
  }),
  ...section("docs/telemetry.md: Where it goes", {
    "traces.function":
      "A function gets the trace from `millrace.run` and as OpenTelemetry's current context.",
    "traces.client": "A call that a function makes with the Python client continues the trace of its run.",
    "traces.server": "A server app gets the trace with each request.",
    "traces.webhook": "A webhook gets the trace of its run.",
    "traces.async": "An async run keeps its trace through its attempts, and on other nodes.",
    "traces.lines": "The runs of a batch's lines, and its webhook, have the trace of its upload.",
    "traces.schedule": "The run of a schedule begins a trace, if traces are exported.",
  }),
  ...section("docs/telemetry.md: Exporting traces", {
    "traces.export":
      "Spans are exported over OTLP, configured by the standard variables, each once and with its parent.",
    "traces.off": "Without an endpoint nothing is exported, and none of OpenTelemetry's packages is loaded.",
    "traces.sampling": "`OTEL_TRACES_SAMPLER` decides which traces are recorded.",
    "traces.slow": "A collector that is slow or gone holds up no call; dropped spans are counted.",
  }),
  ...section("docs/telemetry.md: What the spans say", {
    "traces.spans":
      "A run has spans for its request, each attempt, queue, start, setup, execution and delivery.",
    "traces.batch": "Calls that ran together are linked by a span of their batch.",
    "traces.gen-ai": "The tokens that an answer in OpenAI's form reports are attributes of its span.",
  }),
};
