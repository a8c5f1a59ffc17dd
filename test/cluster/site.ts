import { onTestFinished } from "vitest";
import { Cluster } from "../support/cluster/cluster.ts";
import { faultDice, type Roll } from "../support/dice.ts";
import { WebhookTarget } from "../support/webhook-target.ts";
import { CHANGING, ECHOES, SOCKETS, echoApp, socketApp } from "./apps.ts";
import { Balancer, sendTo } from "./balancer.ts";
import type { ClusterNode } from "../support/cluster/node.ts";
import { Load } from "./load.ts";
import { Promised } from "./promised.ts";

/** Three nodes with twelve apps, everybody who uses them, and where their webhooks go. */
export type Site = {
  readonly cluster: Cluster;
  readonly balancer: Balancer;
  readonly load: Load;
  readonly promised: Promised;
  readonly target: WebhookTarget;
  readonly roll: Roll;
};

const ALL_APPS: readonly string[] = [...ECHOES, ...CHANGING, ...SOCKETS];

type SiteOptions = { readonly env?: Record<string, string>; readonly padBytes?: number };

export async function site({ env = {}, padBytes = 0 }: SiteOptions = {}): Promise<Site> {
  const roll = faultDice();
  const target = await WebhookTarget.open();
  const cluster = await Cluster.start(3, env);
  for (const app of [...ECHOES, ...CHANGING]) await cluster.deploy(app, echoApp(0));
  for (const app of SOCKETS) await cluster.deploy(app, socketApp());
  await cluster.untilSettled();
  const balancer = new Balancer(cluster);
  balancer.start();
  const promised = new Promised(cluster, balancer);
  const webhook = encodeURIComponent(`${target.url}/hook`);
  const load = new Load({ cluster, balancer, promised, roll, webhook, padBytes });
  onTestFinished(async () => {
    await load.stop();
    await balancer.stop();
  });
  return { cluster, balancer, load, promised, target, roll };
}

/** Calls every app through a node, all at once; how long until each has answered. */
export async function answerTimes(cluster: Cluster, node: ClusterNode): Promise<Map<string, number>> {
  const from = Date.now();
  const times = await Promise.all(
    ALL_APPS.map(async (app): Promise<[string, number]> => {
      const isServer = SOCKETS.includes(app);
      for (;;) {
        const { status } = await sendTo(
          node,
          {
            of: "api",
            path: `/v4/${cluster.projectId}/${app}/${isServer ? "call" : "run"}`,
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ n: 0 }),
          },
          cluster.token,
        );
        if (status === 200) return [app, Date.now() - from];
      }
    }),
  );
  return new Map(times);
}

/** Of those times the longest, and whose it is. */
export function longest(times: ReadonlyMap<string, number>): { readonly app: string; readonly ms: number } {
  const [app, ms] = [...times].reduce((most, each) => (each[1] > most[1] ? each : most));
  return { app, ms };
}
