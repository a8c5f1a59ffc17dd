import { expect } from "vitest";
import { SpanCounts } from "../../../../src/kit/histograms.ts";
import { AS_IT_IS, IN_SECONDS, labelText } from "../../../../src/management/metrics/page.ts";
import { Points } from "../../../../src/management/metrics/points.ts";
import { verifies } from "../../../verifies.ts";

verifies("metrics.otlp", "labels are attributes, whatever their text, and values are points", () => {
  const points = new Points();
  const labels = { project: "p-1", app: 'a",b="c\\', function: "x\ny" };
  points.begin("millrace_run_errors_total");
  points.sample(labelText(labels), 3);
  points.begin("cerebrium_run_total");
  points.sample("", 1);
  const [fixed, exponential] = [new SpanCounts([500, 1_000]), new SpanCounts([500], true)];
  for (const ms of [250, 750, 2_000]) fixed.add(ms);
  exponential.add(1_000);
  points.begin("millrace_commit_seconds");
  points.histogram("", fixed, IN_SECONDS);
  points.begin("millrace_response_seconds");
  points.histogram("", exponential, IN_SECONDS);
  points.begin("millrace_batch_size");
  points.histogram("", { boundsMs: [1, 2], counts: [0, 4], count: 4, sumMs: 8 }, AS_IT_IS);
  const [errors, commits, responses, batches, ...more] = points.take();
  expect(more).toEqual([]);
  expect(errors).toMatchObject({ kind: "counter", numbers: [{ attributes: labels, value: 3 }] });
  expect(commits?.explicit).toEqual([
    { attributes: {}, value: { bounds: [0.5, 1], counts: [1, 1, 1], count: 3, sum: 3 } },
  ]);
  // 1 is the upper bound of its class.
  const value = { scale: 4, zeros: 0, offset: -1, counts: [1], count: 1, sum: 1 };
  expect(responses?.exponential).toEqual([{ attributes: {}, value }]);
  expect(batches?.explicit[0]?.value).toMatchObject({ bounds: [1, 2], counts: [0, 4, 0] });
});

verifies("metrics.otlp", "many points are sent in several requests, each with its metrics", () => {
  const points = new Points();
  points.begin("millrace_runs_running");
  for (let i = 0; i < 4_000; i++) points.sample(labelText({ app: `a${i}` }), i);
  expect(points.isFull).toBe(true);
  expect(points.take().map(({ name, numbers }) => [name, numbers.length])).toEqual([
    ["millrace_runs_running", 4_000],
  ]);
  expect(points.isFull).toBe(false);
  points.sample("", 1);
  points.end();
  expect(points.take().map(({ name, numbers }) => [name, numbers.length])).toEqual([
    ["millrace_runs_running", 1],
  ]);
  expect(points.take()).toEqual([]);
});
