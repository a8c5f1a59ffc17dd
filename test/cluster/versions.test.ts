import { expect } from "vitest";
import { Cluster } from "../support/cluster/cluster.ts";
import { breaches } from "../support/cluster/history-rules.ts";
import type { ClusterNode } from "../support/cluster/node.ts";
import { faultDice } from "../support/dice.ts";
import { verifies } from "../verifies.ts";
import { echoApp } from "./apps.ts";
import { sendTo } from "./balancer.ts";

/** How many deploys and rollbacks; MILLRACE_CLUSTER_CHANGES makes it fewer. */
const CHANGES = Number(process.env["MILLRACE_CLUSTER_CHANGES"] ?? 100);
const APPS = ["one", "two", "three"];

/** What an app has been: its versions by build, and the one that serves. */
type Model = { readonly builds: { readonly buildId: string; readonly version: number }[]; current: number };

async function versionAt(cluster: Cluster, node: ClusterNode, app: string): Promise<unknown> {
  const { status, text, failure } = await sendTo(
    node,
    {
      of: "api",
      path: `/v4/${cluster.projectId}/${app}/run`,
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"n":1}',
    },
    cluster.token,
  );
  if (status !== 200) return `${status} ${failure ?? text}`;
  return (JSON.parse(text) as { result: { version: number } }).result.version;
}

verifies(
  "cluster.versions",
  `${CHANGES} random deploys and rollbacks, each through any node: every node serves what the model says`,
  async () => {
    const roll = faultDice();
    const cluster = await Cluster.start(3);
    const pick = <T>(items: readonly T[]): T => items[Math.floor(roll(items.length))]!;
    const models = new Map<string, Model>();
    for (let change = 1; change <= CHANGES; change++) {
      const app = pick(APPS);
      const by = pick(cluster.nodes);
      const model = models.get(app) ?? { builds: [], current: 0 };
      models.set(app, model);
      const isBack = model.builds.length > 1 && roll(2) < 1;
      if (isBack) {
        const { buildId, version } = pick(model.builds.slice(-5));
        expect([change, app, by.name, await cluster.rollBack(app, buildId, by)]).toEqual([
          change,
          app,
          by.name,
          200,
        ]);
        model.current = version;
      } else {
        const buildId = await cluster.deploy(app, echoApp(change), by);
        model.builds.push({ buildId, version: change });
        model.current = change;
      }
      const found = await Promise.all(cluster.nodes.map((node) => versionAt(cluster, node, app)));
      const what = `${change}: ${isBack ? "rollback" : "deploy"} of ${app} through ${by.name}`;
      expect([what, ...found]).toEqual([what, ...cluster.nodes.map(() => model.current)]);
    }
    for (const [app, { current }] of models)
      for (const node of cluster.nodes) expect(await versionAt(cluster, node, app)).toBe(current);
    expect(breaches(await cluster.history.read())).toEqual([]);
  },
);
