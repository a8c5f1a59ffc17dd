import { expect } from "vitest";
import { SpanCounts } from "../../../../src/kit/histograms.ts";
import { AS_IT_IS, formOf, IN_SECONDS, labelText, Page } from "../../../../src/management/metrics/page.ts";
import { verifies } from "../../../verifies.ts";

verifies("operations.metrics", "the text has the form that Prometheus reads", () => {
  const page = new Page("text");
  page.begin("millrace_runs_total");
  page.sample(labelText({ project: "p-1", app: 'a"b\\c\nd', state: "success" }), 3);
  page.begin("process_cpu_seconds_total");
  page.sample("", 1.5);
  const commits = new SpanCounts([1, 5]);
  for (const ms of [0.5, 3, 4, 100]) commits.add(ms);
  page.begin("millrace_commit_seconds");
  page.histogram("", commits, IN_SECONDS);
  const starts = new SpanCounts([1_000]);
  starts.addTraced(2_000, "ab12", 0);
  page.begin("millrace_seat_start_seconds");
  page.histogram(labelText({ phase: "pulled" }), starts, IN_SECONDS);
  page.end();
  const lines = page.take().split("\n");
  expect(lines.filter((line) => !line.startsWith("# HELP"))).toEqual([
    "# TYPE millrace_runs_total counter",
    'millrace_runs_total{project="p-1",app="a\\"b\\\\c\\nd",state="success"} 3',
    "",
    "# TYPE process_cpu_seconds_total counter",
    "process_cpu_seconds_total 1.5",
    "",
    "# TYPE millrace_commit_seconds histogram",
    'millrace_commit_seconds_bucket{le="0.001"} 1',
    'millrace_commit_seconds_bucket{le="0.005"} 3',
    'millrace_commit_seconds_bucket{le="+Inf"} 4',
    "millrace_commit_seconds_sum 0.1075",
    "millrace_commit_seconds_count 4",
    "",
    "# TYPE millrace_seat_start_seconds histogram",
    'millrace_seat_start_seconds_bucket{phase="pulled",le="1"} 0',
    'millrace_seat_start_seconds_bucket{phase="pulled",le="+Inf"} 1',
    'millrace_seat_start_seconds_sum{phase="pulled"} 2',
    'millrace_seat_start_seconds_count{phase="pulled"} 1',
    "",
  ]);
});

verifies("metrics.openmetrics", "OpenMetrics has exemplars with the trace, and an end", () => {
  const page = new Page("openmetrics");
  page.begin("millrace_replica_deaths_total");
  page.sample("", 1);
  const spans = new SpanCounts([500, 1_000]);
  spans.add(1);
  spans.addTraced(750, "0af7651916cd43dd8448eb211c80319c", 1_700_000_000_123);
  spans.addTraced(5_000, "ffff", 1_000);
  page.begin("millrace_response_seconds");
  page.histogram("", spans, IN_SECONDS);
  // The same bounds in another unit.
  page.begin("cerebrium_run_response_time_ms");
  page.histogram('app_name="a"', spans, AS_IT_IS);
  page.end();
  expect(
    page
      .take()
      .split("\n")
      .filter((line) => !line.startsWith("# HELP")),
  ).toEqual([
    "# TYPE millrace_replica_deaths counter",
    "millrace_replica_deaths_total 1",
    "# TYPE millrace_response_seconds histogram",
    'millrace_response_seconds_bucket{le="0.5"} 1',
    'millrace_response_seconds_bucket{le="1.0"} 2 # {trace_id="0af7651916cd43dd8448eb211c80319c"} 0.75 1700000000.123',
    'millrace_response_seconds_bucket{le="+Inf"} 3 # {trace_id="ffff"} 5 1',
    "millrace_response_seconds_sum 5.751",
    "millrace_response_seconds_count 3",
    "# TYPE cerebrium_run_response_time_ms histogram",
    'cerebrium_run_response_time_ms_bucket{app_name="a",le="500.0"} 1',
    'cerebrium_run_response_time_ms_bucket{app_name="a",le="1000.0"} 2 # {trace_id="0af7651916cd43dd8448eb211c80319c"} 750 1700000000.123',
    'cerebrium_run_response_time_ms_bucket{app_name="a",le="+Inf"} 3 # {trace_id="ffff"} 5000 1',
    'cerebrium_run_response_time_ms_sum{app_name="a"} 5751',
    'cerebrium_run_response_time_ms_count{app_name="a"} 3',
    "# EOF",
    "",
  ]);
});

verifies("metrics.openmetrics", "a scraper gets OpenMetrics if it names it, else the text form", () => {
  const prometheus =
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
  expect(["text/plain", "*/*", undefined, prometheus].map(formOf)).toEqual([
    "text",
    "text",
    "text",
    "openmetrics",
  ]);
});
