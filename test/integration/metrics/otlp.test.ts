import { expect } from "vitest";
import { type MetricPoint, MetricCollector } from "../../support/metric-collector.ts";
import { testService } from "../../support/service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const APP = {
  main: "def run(n=1):\n    return n\n\ndef fail():\n    raise ValueError('no')\n",
  toml: "[scaling]\ncooldown = 3600\n",
};

verifies("metrics.otlp", "a collector gets all metrics, times as exponential histograms", async () => {
  await using collector = await MetricCollector.open();
  const clock = new SkippingClock();
  const test = await testService({ app: APP }, collector.flags, { clock });
  await test.call("app", { n: 2 });
  await test.call("app", {}, { functionName: "fail" });
  await test.service.settle();
  clock.skip(60_000);
  const { projectId: project } = test.service.owner;
  const of = (functionName: string) => ({ project, app: "app", function: functionName });
  const find = (name: string, attributes: Record<string, string>): MetricPoint | undefined =>
    collector.points.findLast(
      (point) => point.name === name && JSON.stringify(point.attributes) === JSON.stringify(attributes),
    );
  await collector.until(() => Number(find("millrace_response_seconds", of("fail"))?.value["count"]) === 1);
  expect(find("millrace_response_seconds", of("run"))).toMatchObject({
    kind: "exponentialHistogram",
    unit: "s",
    value: { count: 1, scale: 4, zeroCount: 0 },
  });
  const errors = find("millrace_run_errors_total", { ...of("fail"), code: "app_error" });
  expect(errors).toMatchObject({ kind: "sum", value: { asDouble: 1 } });
  expect(find("millrace_commit_seconds", {})?.kind).toBe("histogram");
  expect(find("millrace_replicas", { project, app: "app", state: "ready" })).toMatchObject({
    kind: "gauge",
    value: { asDouble: 1 },
  });
  expect(collector.points.filter(({ name }) => name.startsWith("cerebrium_"))).toEqual([]);
  expect(collector.points[0]?.resource["service.name"]).toBe("millrace");
});

verifies(
  "metrics.otlp",
  "a collector that is away costs an export, and gets the sums when it is back",
  async () => {
    await using collector = await MetricCollector.open();
    const clock = new SkippingClock();
    const test = await testService({ app: APP }, collector.flags, { clock });
    collector.status = 400;
    await test.call("app");
    clock.skip(60_000);
    await collector.until(() => collector.refused > 0);
    expect((await test.call("app")).status).toBe(200);
    collector.status = 200;
    await test.service.settle();
    clock.skip(60_000);
    await collector.until(() =>
      collector.points.some(({ name, value }) => name === "millrace_runs_total" && value["asDouble"] === 2),
    );
  },
);
