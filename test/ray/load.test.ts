import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { isAlive } from "../support/process-tree.ts";
import { RayCluster } from "../support/ray/ray-cluster.ts";
import { rayService } from "../support/ray/ray-service.ts";
import { SteadyLoad } from "../support/ray/steady-load.ts";
import { until } from "../support/until.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

const found = await RayCluster.find(process.env);
afterAll(async () => await found?.down());
const databases = testDatabases();

const main = (version = 1): string => `
import os, time
VERSION = ${version}
def run(seconds=0):
    time.sleep(seconds)
    return VERSION
def hold(folder):
    open(os.path.join(folder, "in-%d" % os.getpid()), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.005)
`;
const SMALL = "[hardware]\ncpu = 0.25\n";
/** Seats on both nodes, so that what dies is a part. */
const SPREAD = `[hardware]\ncpu = 1\n[scaling]\nmin_replicas = 4\nmax_replicas = 4\nmax_attempts = 10\n`;
const DEPLOYS = 20;
const STARTS = 5;

/** For people: what the test measured. */
function tell(what: string, ms: readonly number[]): void {
  const seconds = ms.map((each) => (each / 1000).toFixed(2)).join(", ");
  process.stderr.write(`\nray: ${what}: ${seconds} s\n`);
}

async function measured(work: () => unknown): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

describe.skipIf(found === null)("load on Ray", () => {
  const ray = found!;

  /** Starts of seats from zero, the death of one, and the end of all, in milliseconds. */
  async function figures(isolation: string): Promise<void> {
    const on = await rayService(ray, databases, {}, { isolation });
    const start = async (app: string): Promise<number> => {
      await on.deploy(app, { main: main(), toml: SMALL });
      return await measured(async () => expect((await on.call(app)).status).toBe(200));
    };
    const first = await start("first");
    const [victim] = await ray.seats();
    const starts: number[] = [];
    for (let n = 0; n < STARTS; n += 1) starts.push(await start(`app-${n}`));
    if (!victim) throw new Error("no actor runs");
    process.kill(victim.pid, "SIGKILL");
    const known = await measured(() =>
      until("Ray knows", async () => (await ray.seats()).every(({ name }) => name !== victim.name)),
    );
    const next = await measured(async () => expect((await on.call("first")).status).toBe(200));
    const actors = (await ray.seats()).map(({ pid }) => pid);
    const stop = await measured(() => on.service.stop());
    const gone = await measured(() => until("all have ended", () => actors.every((pid) => !isAlive(pid))));
    tell(`isolation ${isolation}: the first call of all, with the supervisor's start`, [first]);
    tell(`isolation ${isolation}: first calls of apps`, starts);
    tell(`isolation ${isolation}: an actor is killed: until Ray knows; the next call`, [known, next]);
    tell(`isolation ${isolation}: stop with ${actors.length} seats; until no actor is left`, [stop, gone]);
    await until("no supervisor is left", async () => (await ray.supervisors()).length === 0);
  }

  verifies("ray.scale", "starts, ends and deaths are measured, without walls and behind them", async () => {
    await figures("none");
    await figures("auto");
  });

  verifies("ray.scale", "from nothing to eight seats, and back", async () => {
    const toml = `${SMALL}[scaling]\nmax_replicas = 8\ncooldown = 1\n`;
    const on = await rayService(ray, databases, { app: { main: main(), toml } });
    const held: Promise<{ readonly status: number }>[] = [];
    const up = await measured(async () => {
      for (let n = 0; n < 8; n += 1)
        held.push(on.call("app", { folder: on.directory }, { functionName: "hold" }));
      await until("eight run", async () => {
        const names = await readdir(on.directory);
        return names.filter((name) => name.startsWith("in-")).length === 8;
      });
    });
    expect(await ray.seats()).toHaveLength(8);
    await writeFile(path.join(on.directory, "go"), "");
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual(held.map(() => 200));
    const down = await measured(() =>
      until("none is left", async () => on.ready("app") === 0 && (await ray.seats()).length === 0),
    );
    tell("0 to 8 seats at work; 8 to 0", [up, down]);
  });

  verifies("ray.deploys", `${DEPLOYS} deploys under load fail no call`, async () => {
    const toml = `${SMALL}[scaling]\nmin_replicas = 1\nmax_replicas = 2\n`;
    const on = await rayService(ray, databases, { app: { main: main(0), toml } });
    expect((await on.call("app")).json.result).toBe(0);
    const load = new SteadyLoad(on, "app", { seconds: 0.01 }, 4);
    const took: number[] = [];
    const { baseUrl, owner } = on.service;
    // As a client does: the new version is tried before it serves.
    const client = new DeployClient({ baseUrl, ...owner }, "app");
    const named = `${toml}[deployment]\nname = "app"\n`;
    for (let version = 1; version <= DEPLOYS; version += 1) {
      const zip = await zipOf({ "main.py": main(version), "millrace.toml": named });
      took.push(await measured(async () => expect((await client.deploy(zip)).status).toBe("success")));
      await until("the new version answers", async () => (await on.call("app")).json.result === version);
      await load.submit(1);
    }
    const ends = await load.end();
    expect(load.failures).toEqual([]);
    expect(ends).toEqual(ends.map(() => "success"));
    tell(`${DEPLOYS} deploys, ${load.answered} calls meanwhile`, took);
  });

  // The last one: the cluster has one node less from then on.
  if (ray.isOwn)
    verifies("ray.load", "a node that is killed under load costs no run, and few calls", async () => {
      const on = await rayService(ray, databases, { app: { main: main(), toml: SPREAD } });
      await until("all are ready", () => on.ready("app") === 4);
      const load = new SteadyLoad(on, "app", { seconds: 0.05 }, 4);
      await load.submit(30);
      await load.more(50);
      const seats = await ray.seats();
      const submitted = load.submit(30);
      const dead = ray.killNode();
      const lost = seats.filter(({ pid }) => dead.includes(pid)).length;
      expect(lost).toBeGreaterThan(0);
      const recovery = await measured(() => load.more(20));
      await submitted;
      await load.more(100);
      const ends = await load.end();
      expect(ends).toEqual(ends.map(() => "success"));
      // One call at a time in each seat that died.
      expect(load.failures.length).toBeLessThanOrEqual(lost);
      expect(load.failures.map(({ status }) => status)).toEqual(load.failures.map(() => 502));
      tell(
        `a node with ${lost} of ${seats.length} seats killed, ${load.failures.length} of ${load.answered} calls and 0 of ${ends.length} runs lost: 20 more answers after`,
        [recovery],
      );
    });
});
