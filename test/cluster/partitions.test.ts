import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import { breaches } from "../support/cluster/history-rules.ts";
import type { ClusterNode } from "../support/cluster/node.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";
import { unexplained } from "./judge.ts";
import { answerTimes, longest, site } from "./site.ts";

/** How long a node is away; MILLRACE_CLUSTER_AWAY makes it shorter, in seconds. */
const AWAY_MS = Number(process.env["MILLRACE_CLUSTER_AWAY"] ?? 30) * 1_000;
const CALM_MS = 3_000;

const say = (text: string): void => void process.stderr.write(`${text}\n`);

type Blow = {
  readonly name: string;
  begin(node: ClusterNode): unknown;
  end(node: ClusterNode): unknown;
  /** Before the load begins. */
  prepare?(node: ClusterNode): Promise<void>;
};

const HOUR_MS = 3_600_000;
/** Its date is set while everything else goes on: by a person, or by a machine that was wrong since it started. */
const clockBlow = (words: string, aheadMs: number): Blow => ({
  name: `its clock is set an hour ${words}`,
  prepare: async (node) => {
    await node.stop();
    await node.startWithClock();
  },
  begin: (node) => node.setClock(aheadMs),
  end: (node) => node.setClock(0),
});

/** What is done to a node, and what ends it. */
const BLOWS: readonly Blow[] = [
  {
    name: "Postgres falls silent for it",
    begin: ({ database }) => database.fallSilent(),
    end: ({ database }) => database.speak(),
  },
  {
    name: "Postgres refuses it",
    begin: ({ database }) => database.reset(),
    end: ({ database }) => database.speak(),
  },
  {
    name: "its peers hear nothing of it",
    begin: ({ peers }) => peers.stall(),
    end: ({ peers }) => peers.letThrough(),
  },
  {
    name: "its peers are refused",
    begin: ({ peers }) => peers.reset(),
    end: ({ peers }) => peers.speak(),
  },
  {
    name: "the network loses it, and all that was on its way",
    begin: ({ database, peers }) => {
      database.fallSilent();
      peers.fallSilent();
    },
    end: ({ database, peers }) => {
      database.speak();
      peers.speak();
    },
  },
  { name: "it is frozen", begin: (node) => node.freeze(), end: (node) => node.thaw() },
  clockBlow("ahead", HOUR_MS),
  clockBlow("back", -HOUR_MS),
];

for (const blow of BLOWS) {
  const { name } = blow;
  verifies(
    "cluster.cut-off",
    `${name} for ${AWAY_MS / 1_000} s, under load: no two owners write, nothing is lost, it comes back by itself`,
    async () => {
      const { cluster, load, promised, target, roll } = await site();
      const victim = cluster.nodes[Math.floor(roll(cluster.nodes.length))]!;
      if (blow.prepare) {
        await blow.prepare(victim);
        await cluster.untilSettled();
      }
      const { id } = victim;
      load.start({ deploys: true });
      await pause(CALM_MS);
      const from = Date.now();
      await blow.begin(victim);
      await pause(AWAY_MS);
      await blow.end(victim);
      await until("it says that it is ready", () => victim.isReady());
      const back = await answerTimes(cluster, victim);
      const to = Date.now();
      say(`${name}: ${victim.name} served every app ${longest(back).ms} ms after it was ready`);
      await cluster.untilSettled();
      await pause(CALM_MS);
      await load.stop();
      await promised.keep(target);
      expect(victim.id).toBe(id);
      const events = await cluster.history.read();
      say(
        `${JSON.stringify(load.counts)}, ${promised.accepted.size} accepted, ${load.failures.length} failures`,
      );
      expect(load.wrong).toEqual([]);
      expect(promised.breaches).toEqual([]);
      expect(breaches(events)).toEqual([]);
      const apps = await cluster.history.appNumbers();
      expect(unexplained(load.failures, [{ node: victim, id, from, to }], events, apps)).toEqual([]);
    },
  );
}
