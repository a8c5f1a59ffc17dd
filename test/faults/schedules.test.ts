import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { expect, onTestFinished } from "vitest";
import { nextTime } from "../../src/kit/cron.ts";
import { planSchedules } from "../../src/model/schedule-times.ts";
import type { ScheduleConfig } from "../../src/model/schedule.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { testProgram } from "../support/command-line.ts";
import { type TestDatabase, testDatabases } from "../support/databases.ts";
import { faultDice } from "../support/dice.ts";
import { idAt } from "../support/sample-run.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
const timezone = "Europe/Berlin";
const APPS = 100;
const PER_APP = 100;
/** A time that is skipped or comes twice, one beside it, each hour, and several that are skipped or come twice. */
const CRONS = ["30 2 * * *", "0 3 * * *", "15 * * * *", "*/30 2 * * *"];

const SCHEDULES = Array.from({ length: PER_APP }, (_, i): ScheduleConfig => ({
  name: `s${i}`,
  cron: CRONS[i % CRONS.length]!,
  timezone,
  functionName: "run",
  input: {},
  overlap: "skip",
  catchUp: "none",
  jitterSeconds: 0,
}));

/** A node's schedules in a process of their own, which is killed and started again. */
class Node {
  readonly #options: string;
  #child: ChildProcess | null = null;
  #now = 0;
  /** Called when it begins to write a firing. */
  onFiring: () => void = () => {};

  constructor(database: TestDatabase, owner: string) {
    this.#options = JSON.stringify({ ...database, owner });
    onTestFinished(() => this.kill());
  }

  /** Sets its date, and starts it if it is not there. */
  set(now: number): void {
    this.#now = now;
    this.#child ??= this.#start();
    this.#child.stdin?.write(`${now}\n`);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async restart(): Promise<void> {
    await this.kill();
    this.set(this.#now);
  }

  #start(): ChildProcess {
    const program = testProgram("schedule-node");
    const child = spawn(process.execPath, [program, this.#options], { stdio: ["pipe", "pipe", "inherit"] });
    // It may have been killed before it could read.
    child.stdin.on("error", () => {});
    createInterface({ input: child.stdout }).on("line", (line) => line === "firing" && this.onFiring());
    return child;
  }
}

/** Apps that serve versions with the schedules, from that time on. */
async function deployAll(store: Store, now: number): Promise<void> {
  const projectId = "p-daylight";
  await store.projects.insert({ id: projectId, name: "one", createdAt: now });
  for (let i = 0; i < APPS; i++) {
    const name = `app-${i}`;
    const { number: appNumber } = await store.apps.insertOrFind({ projectId, name, createdAt: now });
    const versionId = idAt(now);
    const version = { id: versionId, appNumber, config: {} as never, bundle: name, createdAt: now };
    await store.versions.insert(version);
    const schedules = planSchedules(SCHEDULES, appNumber, now);
    await store.apps.setCurrentVersion({ appNumber, versionId, schedules, now });
  }
}

/** How often all schedules fire after one time, until another. */
function expectedIn(from: number, to: number): number {
  return SCHEDULES.reduce((sum, schedule) => {
    let count = 0;
    for (let at = nextTime(schedule, from); at !== null && at <= to; at = nextTime(schedule, at)) count += 1;
    return sum + count * APPS;
  }, 0);
}

const STEPS = {
  // At 1:00 the clocks go from 2 to 3.
  forward: ["2026-03-29T00:10Z", ["00:16", "01:01", "01:16", "00:30", "01:17", "02:16"]],
  // At 1:00 they go from 3 to 2.
  back: ["2026-10-25T00:10Z", ["00:16", "00:31", "01:16", "00:20", "01:31", "02:02", "02:16"]],
} as const;

for (const [direction, [start, steps]] of Object.entries(STEPS))
  verifies(
    ["schedules.many", "schedules.once", "schedules.steps"],
    `10,000 schedules fire once each where the clocks go ${direction}, while nodes are killed at the minute`,
    async () => {
      const database = await databases.fresh("postgres");
      const store = await openStore(database);
      const client = new Client({ connectionString: database.databaseUrl! });
      await client.connect();
      onTestFinished(async () => {
        await client.end();
        await store.close();
      });
      const begin = Date.parse(start);
      await deployAll(store, begin);
      const roll = faultDice();
      const nodes = ["one", "two", "three"].map((owner) => new Node(database, owner));
      const countOf = async (table: "firings" | "runs") =>
        Number((await client.query(`select count(*) from ${table}`)).rows[0].count);
      let last = begin;
      let expected = 0;
      let kills = 0;
      for (const step of steps) {
        const now = Date.parse(`${start.slice(0, 11)}${step}Z`);
        expected += expectedIn(last, now);
        last = Math.max(last, now);
        const restarts: Promise<void>[] = [];
        for (const node of nodes) {
          // Each is killed at one of its first writes of this minute, at most.
          let left = Math.floor(roll(4));
          node.onFiring = () => {
            if (left-- !== 0) return;
            kills += 1;
            restarts.push(node.restart());
          };
          node.set(now);
        }
        await until(`${expected} firings by ${step}`, async () => (await countOf("firings")) >= expected);
        await Promise.all(restarts);
        // Else the next times would be skipped: no run ends by itself here.
        await client.query("update runs set state = 2 where state = 0");
      }
      await Promise.all(nodes.map((node) => node.kill()));
      // Three times each hour, and once each of the others.
      expect(expected).toBe((6 * APPS * PER_APP) / CRONS.length);
      expect(kills).toBeGreaterThan(nodes.length);
      expect([await countOf("firings"), await countOf("runs")]).toEqual([expected, expected]);
      const { rows } = await client.query(
        "select count(distinct run_id) as runs, count(*) filter (where state in (1, 3)) as begun from firings",
      );
      expect([Number(rows[0].runs), Number(rows[0].begun)]).toEqual([expected, expected]);
    },
  );
