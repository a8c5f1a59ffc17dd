import { expect, onTestFinished } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { FAULT_LENGTH } from "../support/fault-length.ts";
import { KillableService } from "../support/killable-service.ts";
import { ServerLoad, loadedApp } from "../support/server-load.ts";
import { until } from "../support/until.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

/** So many deploys, and after each a kill. */
const ROUNDS = FAULT_LENGTH === "full" ? 20 : 4;
const SOCKETS = 4;
/** Old WebSockets have the grace period to finish. It also limits each call and stream, on a busy machine too. */
const SCALING =
  'min_replicas = 2\nmax_replicas = 4\nreplica_concurrency = 8\ncooldown = 60\nresponse_grace_period = "10s"\n';

const databases = testDatabases();

verifies(
  "servers.load",
  `a deploy and a kill while calls, streams and WebSockets are under way, ${ROUNDS} times`,
  async () => {
    const database = await databases.fresh("sqlite");
    const { "main.py": main = "", "millrace.toml": toml = "", ...files } = loadedApp(0, SCALING);
    const service = await KillableService.deploy(database, { main, toml, files });
    expect(await service.start()).toBe(true);
    const load = new ServerLoad(service);
    onTestFinished(() => load.finish());
    const acts = [
      ...Array.from({ length: 3 }, () => load.call()),
      ...Array.from({ length: 3 }, () => load.stream()),
      ...Array.from({ length: SOCKETS }, () => load.socket()),
    ];
    /** Until it holds, or something has gone wrong. */
    const reached = (what: string, holds: () => boolean) =>
      until(what, () => load.faults.length > 0 || holds(), load.news);
    const allOn = (isThere: (told: { pid: number; version: number }) => boolean): boolean =>
      load.sockets.size === SOCKETS && [...load.sockets.values()].every(isThere);
    await reached("all is under way", () => load.versions.has(0) && load.sockets.size === SOCKETS);
    const client = new DeployClient(service, "app");
    for (let version = 1; version <= ROUNDS; version++) {
      const { status } = await client.deploy(await zipOf(loadedApp(version, SCALING)));
      expect({ version, status }).toEqual({ version, status: "success" });
      await reached("every WebSocket has moved there", () => allOn((told) => told.version === version));
      // One with a WebSocket, so that its end is told.
      const victim = [...load.sockets.values()][0]?.pid ?? 0;
      const before = load.answered;
      load.kill(victim);
      await reached("others serve", () => load.answered > before && allOn(({ pid }) => pid !== victim));
      load.settle();
      expect(load.faults).toEqual([]);
    }
    load.finish();
    await Promise.all(acts);
    await service.stop();
    expect(load.faults).toEqual([]);
    expect(load.versions.size).toBe(ROUNDS + 1);
    expect(load.wholeStreams).toBeGreaterThan(0);
    expect(load.closes.get(1012)).toBeGreaterThanOrEqual(SOCKETS * ROUNDS);
    expect(load.closes.get(1011)).toBeGreaterThanOrEqual(ROUNDS);
    if (FAULT_LENGTH === "full")
      console.log({ calls: load.answered, streams: load.wholeStreams, lost: load.lost, closes: load.closes });
  },
);
