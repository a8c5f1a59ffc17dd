import { setTimeout as pause } from "node:timers/promises";
import { describe, expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { isReady, killApiServer, killMachine, mayKill } from "../../support/kubernetes/control-plane.ts";
import { agentOf } from "../../support/kubernetes/pod-process.ts";
import { SPREAD, environmentOf, usedMachines } from "../../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../../support/kubernetes/real-cluster.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { echoMain } from "./load.ts";
import { openSite, type Site, strike } from "./site.ts";

const databases = testDatabases();

const SLOTS = 2;
/** Two pods at least, so that what dies is a part; started often enough that no death makes a run fail. */
const TOML = `[hardware]\ncpu = 1\nmemory = 0.2\n[scaling]\nmin_replicas = 2\nmax_replicas = 3\nmax_attempts = 20\nreplica_concurrency = ${SLOTS}\n`;
const APP = { main: echoMain(), toml: TOML };
const AWAY_MS = 60_000;

async function podsOf({ namespace }: Site): Promise<string[]> {
  return (await namespace.left(["pods"])).map((name) => name.replace("pods/", ""));
}

/** One that answers calls. */
async function answering({ service }: Site): Promise<string> {
  return (await service.post({ n: 0 })).json.result.host as string;
}

describe.skipIf(!TEST_CLUSTER)("blows under load", () => {
  verifies("kubernetes.blows", "kill -9 of a pod's first process: only its calls fail", async () => {
    const site = await openSite(databases, APP);
    const { load } = await strike(site, async () => {
      process.kill(agentOf(await answering(site)), "SIGKILL");
    });
    expect(load.failures.length).toBeLessThanOrEqual(SLOTS);
  });

  verifies("kubernetes.blows", "pods deleted by hand: no call fails", async () => {
    const site = await openSite(databases, APP);
    const { load } = await strike(site, async () => {
      for (const pod of await podsOf(site)) await site.namespace.remove("api/v1", "pods", pod);
      await until("others are there", async () => (await podsOf(site)).length > 2);
    });
    expect(load.failures).toEqual([]);
  });

  verifies("kubernetes.blows", "kill -9 of a kubelet and its containerd: no call fails", async (context) => {
    if (!mayKill("kubelet2")) context.skip();
    const site = await openSite(databases, APP, environmentOf(SPREAD));
    const { load } = await strike(site, async () => {
      expect(await usedMachines(site.namespace)).toContain("hk-node2");
      const restart = killMachine();
      await until("the machine is not ready", async () => !(await isReady("hk-node2")));
      restart();
      await until("the machine is back", async () => await isReady("hk-node2"));
    });
    expect(load.failures).toEqual([]);
  });

  verifies(
    "kubernetes.blows",
    "the API server is away for a minute: only what died fails",
    async (context) => {
      if (!mayKill("apiserver")) context.skip();
      const site = await openSite(databases, APP);
      const { load } = await strike(site, async () => {
        const victim = agentOf(await answering(site));
        const restart = await killApiServer();
        const endsAt = Date.now() + AWAY_MS;
        // What ends meanwhile cannot be replaced, and nobody hears of it but by its calls.
        process.kill(victim, "SIGKILL");
        await pause(endsAt - Date.now());
        await restart();
      });
      expect(load.failures.length).toBeLessThanOrEqual(SLOTS);
    },
  );

  verifies("kubernetes.blows", "kill -9 of the service: what it had fails, and no run is lost", async () => {
    const site = await openSite(databases, APP);
    await strike(site, async () => {
      await site.service.kill();
      expect(await site.service.start()).toBe(true);
    });
  });
});
