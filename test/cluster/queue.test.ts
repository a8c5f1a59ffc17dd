import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import { uuidText } from "../../src/kit/ids.ts";
import { Cluster } from "../support/cluster/cluster.ts";
import { breaches } from "../support/cluster/history-rules.ts";
import { readQueue, watchQueue } from "../support/cluster/queue-history.ts";
import { queueFaults } from "../support/cluster/queue-rules.ts";
import { faultDice } from "../support/dice.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";
import { Balancer } from "./balancer.ts";
import { QUEUE_APP, QUEUE_APPS, QUEUE_LIMITS, QueueLoad, type Wanted } from "./queue-load.ts";

/** How often each thing is done; MILLRACE_CLUSTER_KILLS makes it fewer. */
const ROUNDS = Math.min(6, Number(process.env["MILLRACE_CLUSTER_KILLS"] ?? 6));
/** Longer than a lease. */
const FROZEN_MS = 20_000;
/** How long the database is away, at most. */
const AWAY_MS = 3_000;
const CALM_MS = 4_000;
const LOOKERS = 8;

const say = (text: string): void => void process.stderr.write(`${text}\n`);

type Found = { readonly status: string; readonly result?: { readonly n: number } };

/** What each run came to that must not have. */
async function wrongEnds(
  wanted: ReadonlyMap<string, Wanted>,
  cluster: Cluster,
  balancer: Balancer,
): Promise<string[]> {
  const wrong: string[] = [];
  const left = wanted.entries();
  const look = async (): Promise<void> => {
    for (const [id, { app, n, isDoomed }] of left) {
      const { status, text } = await balancer.send({
        of: "api",
        path: `/v4/${cluster.projectId}/${app}/runs/${id}`,
      });
      const found = status === 200 ? (JSON.parse(text) as Found) : null;
      const isRight = isDoomed
        ? found?.status === "failure"
        : found?.status === "success" && found.result?.n === n;
      if (!isRight) wrong.push(`run ${n} of ${app}, ${id}: ${status} ${text.slice(0, 500)}`);
    }
  };
  await Promise.all(Array.from({ length: LOOKERS }, look));
  return wrong;
}

/** What the days' sums say, and what they are of. */
const USAGE_AND_RUNS = `
  select sum(succeeded + failed + cancelled)::float8 as counted, sum(run_us)::float8 as us,
    (select count(*) from runs where state > 1)::float8 as recorded,
    (select coalesce(sum(floor(run_ms * 1000 + 0.5)), 0) from (
      select run_ms from runs where state > 1 union all select run_ms from attempts
    ) as ran) as recorded_us
  from daily_usage where tag = ''
`;

verifies(
  "cluster.queue",
  `three nodes killed, frozen for ${FROZEN_MS / 1_000} s and without their database, ${ROUNDS} times each: every run ends once, in its turn and within the limits`,
  async () => {
    const roll = faultDice();
    const cluster = await Cluster.start(3);
    await watchQueue(cluster.database);
    for (const app of QUEUE_APPS) await cluster.deploy(app, QUEUE_APP);
    await cluster.untilSettled();
    const balancer = new Balancer(cluster);
    balancer.start();
    const load = new QueueLoad({ cluster, balancer, roll });
    onTestFinished(async () => {
      await load.giveUp();
      await balancer.stop();
    });
    load.start();
    const victim = () => cluster.nodes[Math.floor(roll(cluster.nodes.length))]!;
    for (let round = 1; round <= ROUNDS; round++) {
      await pause(roll(CALM_MS));
      const killed = victim();
      await killed.kill();
      await pause(roll(CALM_MS));
      await killed.start();
      await cluster.untilSettled();
      say(`round ${round}: ${killed.name} is back, ${load.wanted.size} runs accepted`);

      const frozen = victim();
      frozen.freeze();
      await pause(FROZEN_MS);
      frozen.thaw();
      await frozen.untilReady();
      await cluster.untilSettled();
      say(`round ${round}: ${frozen.name} goes on, ${load.wanted.size} runs accepted`);

      await cluster.postgres.end(round % 2 === 0 ? "INT" : "QUIT");
      await pause(roll(AWAY_MS));
      expect(await cluster.postgres.start()).toBe(true);
      await Promise.all(cluster.nodes.map((node) => node.untilReady()));
      await cluster.untilSettled();
      say(`round ${round}: Postgres is back, ${load.wanted.size} runs accepted`);
    }
    await load.stop();
    const count = async (which: string): Promise<number> => {
      const found = await cluster.database.query<{ count: string }>(
        `select count(*) from runs where ${which}`,
      );
      return Number(found.rows[0]?.count);
    };
    await until("every run has ended", async () => (await count("state in (0, 1)")) === 0);
    const steps = await readQueue(cluster.database);
    say(`${load.wanted.size} runs were accepted and took ${steps.length} steps`);
    // Each was asked for again and again, and accepted once. A refusal is stored too, if it was in doubt.
    const accepted = await cluster.database.query<{ id: Buffer }>(
      "select id from runs where is_async = 1 and error_code is distinct from 'storage_unavailable'",
    );
    const ids = accepted.rows.map(({ id }) => uuidText(id));
    expect(ids.toSorted()).toEqual([...load.wanted.keys()].toSorted());
    expect(await wrongEnds(load.wanted, cluster, balancer)).toEqual([]);
    expect(queueFaults(steps, QUEUE_LIMITS)).toEqual([]);
    expect(breaches(await cluster.history.read())).toEqual([]);
    const [usage] = (await cluster.database.query(USAGE_AND_RUNS)).rows;
    expect([usage["counted"], usage["us"]]).toEqual([usage["recorded"], usage["recorded_us"]]);
  },
);
