import { internals } from "../support/test-settings.ts";
import { describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { podFlags } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER, TestNamespace } from "../support/kubernetes/real-cluster.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

const APP = {
  main: `
import os, time
def run(seconds=0):
    time.sleep(seconds)
    return os.uname().nodename
`,
  toml: "[hardware]\ncpu = 0.2\nmemory = 0.2\n[scaling]\nmax_replicas = 2\n",
};

/** A service in a process of its own, whose replicas are pods of a namespace of its own. */
async function killable(): Promise<{ service: KillableService; namespace: TestNamespace }> {
  const namespace = await TestNamespace.make();
  const flags = Object.entries(await podFlags(namespace)).map(([name, value]) => [
    `MILLRACE_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`,
    value,
  ]);
  const database = await databases.fresh("postgres");
  const service = await KillableService.deploy(database, APP, Object.fromEntries(flags), false);
  return { service, namespace };
}

describe.skipIf(!TEST_CLUSTER)("pods whose service is gone", () => {
  verifies(
    "kubernetes.adopted",
    "kill -9 of the service under load: the same pods answer, and every run ends once",
    async () => {
      const { service, namespace } = await killable();
      await service.start();
      const runs: string[] = [];
      for (let n = 0; n < 6; n += 1) {
        const { json } = await service.post({ seconds: 2 }, { query: "?async=true" });
        runs.push(json.run_id as string);
      }
      await until("two run", async () => {
        const found = await Promise.all(runs.map((id) => service.find(id)));
        return found.filter((run) => run?.status === "running").length === 2;
      });
      const pods = (await namespace.left(["pods"])).toSorted();
      expect(pods).toHaveLength(2);
      await service.kill();
      await service.start();
      for (const id of runs) {
        const { status, result } = await service.ended(id);
        expect([status, pods.includes(`pods/${String(result)}`)]).toEqual(["success", true]);
      }
      expect(pods).toContain(`pods/${String((await service.post({})).json.result)}`);
      expect((await namespace.left(["pods"])).toSorted()).toEqual(pods);
      await service.stop();
      await namespace.untilEmpty();
    },
  );

  verifies("kubernetes.sweep", "pods that nobody needs any more go with the last service", async () => {
    const { service, namespace } = await killable();
    await service.start();
    await service.post({});
    await service.kill();
    expect(await namespace.left(["pods"])).toHaveLength(1);
    await service.start();
    await service.stop();
    await namespace.untilEmpty();
  });

  verifies(["seats.left", "kubernetes.adopted"], "a service is restarted: its pods go on", async () => {
    const { service, namespace } = await killable();
    await service.start(undefined, internals({ keepSeats: true }));
    const before = (await service.post({})).json.result as string;
    await service.stop();
    await service.start();
    expect((await service.post({})).json.result).toBe(before);
    await service.stop();
    await namespace.untilEmpty();
  });
});
