import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import { breaches } from "../support/cluster/history-rules.ts";
import { verifies } from "../verifies.ts";
import { type Blow, unexplained } from "./judge.ts";
import { answerTimes, longest, site, type Site } from "./site.ts";

/** How often a node is killed; MILLRACE_CLUSTER_KILLS makes it fewer. */
const KILLS = Number(process.env["MILLRACE_CLUSTER_KILLS"] ?? 20);
// Bounds on the median of all rounds: on a busy machine a single round may take longer.
const AFTER_KILL_MS = 10_000;
const AFTER_STOP_MS = 1_000;
/** Load between two blows, at most. */
const CALM_MS = 3_000;

const say = (text: string): void => void process.stderr.write(`${text}\n`);

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

/** Everything that was promised of what the load met. */
async function judge({ cluster, load, promised, target }: Site, blows: readonly Blow[]): Promise<void> {
  await load.stop();
  await promised.keep(target);
  const events = await cluster.history.read();
  const apps = await cluster.history.appNumbers();
  say(`${JSON.stringify(load.counts)}, ${promised.accepted.size} accepted, ${load.failures.length} failures`);
  expect(load.wrong).toEqual([]);
  expect(promised.breaches).toEqual([]);
  expect(breaches(events)).toEqual([]);
  expect(unexplained(load.failures, blows, events, apps)).toEqual([]);
}

verifies(
  "cluster.kills",
  `${KILLS} times kill -9 of a node under mixed load: nothing lost or stuck, every app back within 10 s`,
  async () => {
    const place = await site();
    const { cluster, load, roll } = place;
    const blows: Blow[] = [];
    const answeredMs: number[] = [];
    load.start({ deploys: true });
    for (let round = 1; round <= KILLS; round++) {
      await pause(roll(CALM_MS));
      const victim = cluster.nodes[Math.floor(roll(cluster.nodes.length))]!;
      const others = cluster.nodes.filter((node) => node !== victim);
      const { id } = victim;
      const from = Date.now();
      await victim.kill();
      blows.push({ node: victim, id, from, to: Date.now() });
      const times = await Promise.all(others.map((node) => answerTimes(cluster, node)));
      const worst = longest(new Map(times.map((each) => Object.values(longest(each)) as [string, number])));
      say(`kill ${round}: ${victim.name}, ${worst.app} answered after ${worst.ms} ms`);
      answeredMs.push(worst.ms);
      await victim.start();
      await cluster.untilSettled();
    }
    await judge(place, blows);
    expect(median(answeredMs)).toBeLessThanOrEqual(AFTER_KILL_MS);
  },
);

verifies("cluster.restarts", "a rolling restart of three nodes under load: no call fails", async () => {
  const place = await site();
  const { cluster, load } = place;
  const answeredMs: number[] = [];
  load.start({ deploys: false });
  for (const node of cluster.nodes) {
    await pause(CALM_MS);
    load.longestMs = 0;
    await node.stop();
    const others = cluster.nodes.filter((each) => each !== node);
    const times = await Promise.all(others.map((each) => answerTimes(cluster, each)));
    const worst = Math.max(...times.map((each) => longest(each).ms));
    say(
      `${node.name} has stopped: longest call meanwhile ${load.longestMs} ms, then every app in ${worst} ms`,
    );
    answeredMs.push(worst);
    await node.start();
    await cluster.untilSettled();
  }
  await judge(place, []);
  expect(median(answeredMs)).toBeLessThanOrEqual(AFTER_STOP_MS);
});
