import { expect } from "vitest";
import { Cluster } from "../../support/cluster/cluster.ts";
import { breaches } from "../../support/cluster/history-rules.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "import time\n\ndef run(n=0, ms=0):\n    time.sleep(ms / 1000)\n    return n\n";
const SCALING = "[scaling]\nmin_replicas = 1\nmax_attempts = 20\n";
const APPS = ["a", "b", "c", "d"];

verifies(
  "cluster.dead-node",
  "what a killed node had accepted is done by the other, which serves its apps",
  async () => {
    const target = await WebhookTarget.open();
    const cluster = await Cluster.start(2);
    for (const app of APPS) await cluster.deploy(app, { "main.py": MAIN, "millrace.toml": SCALING });
    await cluster.untilSettled();
    const [victim, other] = cluster.nodes as [(typeof cluster.nodes)[0], (typeof cluster.nodes)[0]];
    const headers = { authorization: `Bearer ${cluster.token}`, "content-type": "application/json" };
    const accepted = new Map<string, string>();
    for (const app of [...APPS, ...APPS, ...APPS]) {
      const query = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
      const response = await fetch(cluster.url(victim, app, `run${query}`), {
        method: "POST",
        headers,
        body: JSON.stringify({ n: 7, ms: 300 }),
      });
      expect(response.status).toBe(202);
      accepted.set(((await response.json()) as { run_id: string }).run_id, app);
    }
    await victim.kill();
    for (const [id, app] of accepted) {
      await until(`the run ${id} of ${app} ends`, async () => {
        const response = await fetch(cluster.url(other, app, `runs/${id}`), { headers });
        const { status } = (await response.json()) as { status: string };
        return status === "success";
      });
    }
    for (const app of APPS) {
      const response = await fetch(cluster.url(other, app, "run"), {
        method: "POST",
        headers,
        body: '{"n":1}',
      });
      expect([app, response.status, ((await response.json()) as { result: number }).result]).toEqual([
        app,
        200,
        1,
      ]);
    }
    await until(
      "every webhook has come",
      () => {
        const came = new Set(target.received.map((received) => String(received.headers["webhook-id"])));
        return [...accepted.keys()].every((id) => came.has(id));
      },
      target.news,
    );
    await other.stop();
    expect(breaches(await cluster.history.read())).toEqual([]);
  },
);
