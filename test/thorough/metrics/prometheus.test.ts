import { describe, expect } from "vitest";
import { DASHBOARDS } from "../../../scripts/make-dashboards.ts";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import { run } from "../../support/command-line.ts";
import { parseExposition } from "../../support/exposition.ts";
import { hasPrometheus, Prometheus } from "../../support/prometheus.ts";
import { testService, WITHOUT_WALLS } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os

def run(n=1):
    return os.getpid()

def fail():
    raise ValueError("no")

def embed(texts):
    return texts
`;
const TOML = '[batching.embed]\n[hardware]\ncompute = "H100"\ngpu_memory = 20\n';
const TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736";
const OPEN_METRICS = "application/openmetrics-text;version=1.0.0";

/** Every expression of a dashboard, as Grafana asks it for all apps over the last seconds. */
const EXPRESSIONS = Object.entries(DASHBOARDS).flatMap(([file, { rows }]) =>
  Object.values(rows)
    .flat()
    .flatMap(({ title, targets }) =>
      targets.map(([expr]) => ({
        panel: `${file}: ${title}`,
        expr: expr
          .replaceAll("$__rate_interval", "10s")
          .replaceAll(/\$(?:project|app|instance|uuid)\b/g, ".*"),
      })),
    ),
);

describe.skipIf(!hasPrometheus())("a real Prometheus", () => {
  verifies(
    ["metrics.prometheus", "metrics.dashboards", "metrics.alerts", "metrics.openmetrics"],
    "scrapes a service with its exemplars, and every expression of every panel gives data",
    async () => {
      const gpus = new FakeGpus([{ count: 2, model: "H100", memoryGb: 80 }]);
      const target = await WebhookTarget.open();
      const flags = { ...WITHOUT_WALLS, webhookAllow: "127.0.0.0/8", gpuHold: "0s" };
      const test = await testService({ shown: { main: MAIN, toml: TOML } }, flags, { gpus });
      const pid = (await test.call("shown")).json.result as number;
      const reading = { usedBytes: 5e9, freeBytes: 75e9, utilization: 90, watts: 300, celsius: 60 };
      gpus.show(0, { ...reading, processes: [{ pid, usedBytes: 5e9 }] });
      const { host } = new URL(test.service.baseUrl);
      const prometheus = await Prometheus.open(host);
      const use = async (): Promise<void> => {
        const webhook = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
        await Promise.all([
          test.call("shown", {}, { headers: { traceparent: `00-${TRACE_ID}-00f067aa0ba902b7-01` } }),
          test.call("shown", {}, { functionName: "fail" }),
          test.call("shown", { texts: "a" }, { functionName: "embed" }),
          test.call("shown", {}, { suffix: webhook }),
        ]);
      };
      await prometheus.scraped(2);
      let lacking = EXPRESSIONS;
      await until("all panels have data", async () => {
        await use();
        const found = await Promise.all(lacking.map(({ expr }) => prometheus.query(expr)));
        lacking = lacking.filter((_, i) => found[i]?.length === 0);
        if (lacking.length > 0) process.stderr.write(`\nno data yet: ${JSON.stringify(lacking[0])}\n`);
        return lacking.length === 0;
      });

      type Exemplars = readonly { exemplars: readonly { labels: { trace_id: string } }[] }[];
      const range = `start=${Date.now() / 1000 - 600}&end=${Date.now() / 1000 + 600}`;
      const query = `/query_exemplars?query=millrace_response_seconds_bucket&${range}`;
      let traces: string[] = [];
      await until("it has exemplars", async () => {
        const found = await prometheus.ask<Exemplars>(query);
        traces = found.flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels.trace_id));
        return traces.length > 0;
      });
      expect([...new Set(traces)]).toEqual([TRACE_ID]);

      // Nothing more happens: it has taken as many samples as there are.
      const answer = await fetch(`${test.service.baseUrl}/metrics`, { headers: { accept: OPEN_METRICS } });
      const { samples } = parseExposition(await answer.text());
      await until("a scrape after the last call", async () => {
        const [taken] = await prometheus.query("scrape_samples_post_metric_relabeling");
        return Number(taken?.value[1]) === samples.length;
      });
      type Rules = {
        groups: readonly { rules: readonly { name: string; health: string; lastError?: string }[] }[];
      };
      await until("all rules were evaluated, without an error", async () => {
        const { groups } = await prometheus.ask<Rules>("/rules");
        const rules = groups.flatMap((group) => group.rules);
        for (const { name, lastError } of rules) expect([name, lastError]).toEqual([name, undefined]);
        return rules.length > 0 && rules.every(({ health }) => health === "ok");
      });
    },
  );

  verifies(
    "metrics.alerts",
    "promtool finds that each alert fires when it should, and not before",
    async () => {
      const file = "packaging/prometheus/alerts.test.yaml";
      const { code, stdout, stderr } = await run("promtool", ["test", "rules", file], { cwd: REPOSITORY });
      expect([code, stdout + stderr]).toMatchObject([0, expect.stringContaining("SUCCESS")]);
    },
  );
});
