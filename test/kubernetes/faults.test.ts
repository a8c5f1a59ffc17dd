import { describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { isReady, killApiServer, killMachine, machinesOf, mayKill } from "../support/kubernetes/control-plane.ts";
import { agentOf } from "../support/kubernetes/pod-process.ts";
import { SPREAD, podEnvironment, podService, usedMachines } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER, TestNamespace } from "../support/kubernetes/real-cluster.ts";
import type { TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

const MAIN = `
import os, time
def run(seconds=0):
    time.sleep(seconds)
    return os.uname().nodename
def wait():
    print("waits")
    while True:
        time.sleep(0.01)
`;
/** As little as a pod can ask for, so that all fit. */
const SMALL = "[hardware]\ncpu = 0.2\nmemory = 0.2\n";
const SCALING = "[scaling]\nmax_replicas = 3\ncooldown = 1\n";
const APP = { main: MAIN, toml: SMALL + SCALING };

async function hostOf(on: TestService, body: object = {}): Promise<string> {
  const { json, text } = await on.call("app", body);
  if (typeof json?.result !== "string") throw new Error(text);
  return json.result;
}

describe.skipIf(!TEST_CLUSTER)("pods that come and go", () => {
  verifies(
    ["kubernetes.scale", "kubernetes.nothing-left", "seats.cold"],
    "from nothing to three pods on all machines, and back",
    async () => {
      const { on, namespace } = await podService(databases, { app: APP }, SPREAD);
      expect(await namespace.left()).toEqual([]);
      const waiting = await Promise.all(
        Array.from({ length: 3 }, () => on.call("app", {}, { functionName: "wait", suffix: "?async=true" })),
      );
      await until("three pods are ready", () => on.ready("app") === 3);
      expect(await namespace.left(["pods"])).toHaveLength(3);
      const machines = await machinesOf();
      expect(await usedMachines(namespace)).toHaveLength(Math.min(3, machines.length));
      for (const { json } of waiting) await on.ofRun("app", json.run_id, "cancel", { method: "POST" });
      await until("none is left", () => on.ready("app") === 0);
      await namespace.untilEmpty();
    },
  );

  verifies(
    ["kubernetes.ends", "kubernetes.no-lost-run"],
    "a pod is killed, and another deleted, while runs are under way: every run ends",
    async () => {
      const { on, namespace } = await podService(databases, { app: APP }, SPREAD);
      const runs: string[] = [];
      const submit = async (): Promise<void> => {
        for (let n = 0; n < 6; n += 1) {
          const { json } = await on.call("app", { seconds: 1 }, { suffix: "?async=true" });
          runs.push(json.run_id as string);
        }
      };
      await submit();
      await until("a pod is ready", () => on.ready("app") > 0);
      process.kill(agentOf(await hostOf(on)), "SIGKILL");
      await submit();
      await namespace.remove("api/v1", "pods", await hostOf(on));
      for (const id of runs) {
        await until(`the run ${id} has ended`, async () => {
          const { json } = await on.ofRun("app", id);
          return json.status === "success";
        });
      }
      await until("none is left", () => on.ready("app") === 0);
      await namespace.untilEmpty();
    },
  );

  verifies("kubernetes.drain", "a pod that is told to leave takes calls until another is ready", async () => {
    const toml = `${SMALL}[scaling]\nmin_replicas = 1\nresponse_grace_period = 120\n`;
    const { on, namespace } = await podService(databases, { app: { main: MAIN, toml } });
    const before = await hostOf(on);
    await namespace.remove("api/v1", "pods", before);
    // Each throws if it is not answered.
    await until("another pod answers", async () => (await hostOf(on)) !== before);
    await until("the first one is gone", async () => {
      const left = await namespace.left(["pods"]);
      return !left.includes(`pods/${before}`);
    });
    await on.service.stop();
    await namespace.untilEmpty();
  });

  verifies("kubernetes.reasons", "a call that waits for a pod in vain is told why", async () => {
    const toml = `${SMALL}[deployment]\ndeployment_initialization_timeout = "15s"\n`;
    const flags = { kubernetesImage: "127.0.0.1:1/nowhere/missing:1" };
    const { on, namespace } = await podService(databases, { app: { main: MAIN, toml } }, flags);
    // The cluster tries in its own time.
    await until("the reason is told", async () => {
      const { status, text } = await on.call("app");
      expect(status).toBe(503);
      return text.includes("its image cannot be pulled");
    });
    await namespace.untilEmpty();
  });

  verifies("kubernetes.outage", "calls are answered while the API server is away", async (context) => {
    if (!mayKill("apiserver")) context.skip();
    const { on, namespace } = await podService(databases, { app: APP });
    const host = await hostOf(on);
    const waiting = await on.call("app", {}, { functionName: "wait", suffix: "?async=true" });
    const restart = await killApiServer();
    // A second replica cannot come now; the first is busy, and then goes on.
    await on.ofRun("app", waiting.json.run_id, "cancel", { method: "POST" });
    expect(await hostOf(on)).toBe(host);
    process.kill(agentOf(host), "SIGKILL");
    await until("its replica is gone", () => on.ready("app") === 0);
    // It waits for a pod that nobody can make now.
    const next = on.call("app");
    await restart();
    expect((await next).json.result).not.toBe(host);
    await until("none is left", () => on.ready("app") === 0);
    await namespace.untilEmpty();
  });

  verifies("kubernetes.not-ready", "pods of a machine that is not ready go on", async (context) => {
    if (!mayKill("kubelet2")) context.skip();
    const nodeSelector = { "kubernetes.io/hostname": "hk-node2" };
    const flags = { kubernetesPod: JSON.stringify({ nodeSelector }) };
    const toml = `${SMALL}[scaling]\nmin_replicas = 1\n`;
    const { on, namespace } = await podService(databases, { app: { main: MAIN, toml } }, flags);
    const host = await hostOf(on);
    const restart = killMachine();
    await until("the machine is not ready", async () => !(await isReady("hk-node2")));
    // The cluster says so of the pod, too; whoever answers is alive.
    for (let n = 0; n < 20; n += 1) expect(await hostOf(on)).toBe(host);
    restart();
    await until("the machine is back", async () => await isReady("hk-node2"));
    expect(await hostOf(on)).toBe(host);
    await on.service.stop();
    await namespace.untilEmpty();
  });

  verifies("kubernetes.sweep", "a service is killed: the next one sweeps its pods, and serves", async () => {
    const namespace = await TestNamespace.make();
    const database = await databases.fresh("postgres");
    const service = await KillableService.deploy(database, APP, await podEnvironment(namespace), false);
    await service.start();
    const before = (await service.post({})).json.result as string;
    await service.kill();
    await service.start();
    // Nobody wants it: it ends after its grace.
    await until("the pod of the dead one is gone", async () => {
      const left = await namespace.left(["pods"]);
      return !left.includes(`pods/${before}`);
    });
    expect((await service.post({})).json.result).not.toBe(before);
    await service.stop();
    await namespace.untilEmpty();
  });
});
