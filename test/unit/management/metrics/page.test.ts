import { expect } from "vitest";
import { SpanCounts } from "../../../../src/kit/histograms.ts";
import {
  exposition,
  inSeconds,
  type Metric,
  METRICS,
  Samples,
} from "../../../../src/management/installation/metrics.ts";
import { verifies } from "../../../verifies.ts";

/** What the text says of one metric. */
function partOf(text: string, name: string): string | undefined {
  return text.split("\n\n").find((part) => part.startsWith(`# HELP ${name} `));
}

verifies("operations.metrics", "the text has every metric, in the form that Prometheus reads", () => {
  const samples = new Samples();
  samples.add("millrace_runs_total", { project: "p-1", app: 'a"b\\c\nd', state: "success" }, 3);
  samples.add("process_cpu_seconds_total", {}, 1.5);
  const commits = new SpanCounts([1, 5]);
  for (const ms of [0.5, 3, 4, 100]) commits.add(ms);
  const starts = new SpanCounts([1_000]);
  starts.add(2_000);
  const text = exposition(samples, {
    millrace_commit_seconds: [inSeconds({}, commits)],
    millrace_seat_start_seconds: [inSeconds({ phase: "pulled" }, starts)],
  });

  expect(text.endsWith("\n") && !text.endsWith("\n\n")).toBe(true);
  const heads = Object.entries<Metric>(METRICS).map(
    ([name, { kind, help }]) => `# HELP ${name} ${help}\n# TYPE ${name} ${kind}`,
  );
  expect(text.split("\n\n").map((part) => part.split("\n").slice(0, 2).join("\n"))).toEqual(heads);
  expect(partOf(text, "millrace_runs_total")?.split("\n").slice(2)).toEqual([
    'millrace_runs_total{project="p-1",app="a\\"b\\\\c\\nd",state="success"} 3',
  ]);
  expect(partOf(text, "process_cpu_seconds_total")?.split("\n").slice(2)).toEqual([
    "process_cpu_seconds_total 1.5",
  ]);
  // Nothing is known of it: without labels it is zero, with labels it has no line.
  expect(partOf(text, "millrace_records_waiting")?.split("\n").slice(2)).toEqual([
    "millrace_records_waiting 0",
  ]);
  expect(partOf(text, "millrace_replicas")?.split("\n").slice(2)).toEqual([]);
  expect(partOf(text, "millrace_commit_seconds")?.split("\n").slice(2)).toEqual([
    'millrace_commit_seconds_bucket{le="0.001"} 1',
    'millrace_commit_seconds_bucket{le="0.005"} 3',
    'millrace_commit_seconds_bucket{le="+Inf"} 4',
    "millrace_commit_seconds_sum 0.1075",
    "millrace_commit_seconds_count 4",
  ]);
  expect(partOf(text, "millrace_seat_start_seconds")?.split("\n").slice(2)).toEqual([
    'millrace_seat_start_seconds_bucket{phase="pulled",le="1"} 0',
    'millrace_seat_start_seconds_bucket{phase="pulled",le="+Inf"} 1',
    'millrace_seat_start_seconds_sum{phase="pulled"} 2',
    'millrace_seat_start_seconds_count{phase="pulled"} 1',
  ]);
});
