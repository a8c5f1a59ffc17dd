import { setTimeout as pause } from "node:timers/promises";
import { describe, expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { cutOff, killMachine, mayKill } from "../../support/kubernetes/control-plane.ts";
import { agentOf } from "../../support/kubernetes/pod-process.ts";
import { TEST_CLUSTER } from "../../support/kubernetes/real-cluster.ts";
import { isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { expectOneEnd, openSite } from "./site.ts";

const databases = testDatabases();

const MAIN = `
import os, time
def run(seconds=0):
    time.sleep(seconds)
    return os.uname().nodename
`;
/** So that the pods are on both machines, one each as long as both are there. */
const SPREAD = {
  topologySpreadConstraints: [
    {
      maxSkew: 1,
      topologyKey: "kubernetes.io/hostname",
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: { matchLabels: { "app.kubernetes.io/managed-by": "millrace" } },
    },
  ],
};
const TOML = `[hardware]\ncpu = 1\nmemory = 0.2\n[scaling]\nmin_replicas = 2\nmax_replicas = 2\nmax_attempts = 5\n`;
const RUN_SECONDS = 50;

type Pod = { readonly metadata: { readonly name: string }; readonly spec: { readonly nodeName?: string } };

describe.skipIf(!TEST_CLUSTER)("a machine that is cut off", () => {
  verifies("kubernetes.cut-off", "its run is given to another, and its answer refused", async (context) => {
    if (!mayKill("kubelet2")) context.skip();
    const env = { MILLRACE_KUBERNETES_POD: JSON.stringify(SPREAD) };
    const { service, namespace, history } = await openSite(databases, { main: MAIN, toml: TOML }, env);
    const inPod = async (machine: string): Promise<string | undefined> => {
      const pods = await namespace.list<Pod>("api/v1", "pods");
      return pods.find(({ spec }) => spec.nodeName === machine)?.metadata.name;
    };
    const hosts = new Set<string>();
    await until("both pods answer", async () => {
      for (const { json } of await Promise.all([
        service.post({ seconds: 0.1 }),
        service.post({ seconds: 0.1 }),
      ]))
        hosts.add(json.result as string);
      return hosts.size === 2;
    });
    const cut = (await inPod("hk-node2")) ?? "";
    expect([...hosts]).toContain(cut);
    // Each has one.
    const startedAt = Date.now();
    const post = () => service.post({ seconds: RUN_SECONDS }, { query: "?async=true" });
    const runs = (await Promise.all([post(), post()])).map(({ json }) => json.run_id as string);
    await until("both run", async () => {
      const found = await Promise.all(runs.map((id) => service.find(id)));
      return found.every((run) => run?.status === "running");
    });
    const agent = agentOf(cut);
    // Nobody can end it there, nor does anybody hear of it.
    const restart = killMachine();
    const join = cutOff("hkbr2");
    await until("another has its run", async () => {
      const found = await Promise.all(runs.map((id) => service.find(id)));
      return found.some((run) => run?.attempt === 2);
    });
    // The first one has its answer by then, and the other has not.
    await pause(Math.max(0, startedAt + RUN_SECONDS * 1_000 + 1_000 - Date.now()));
    join();
    await until("its agent is told, and ends", () => !isAlive(agent));
    restart();
    const ended = await Promise.all(runs.map((id) => service.ended(id)));
    console.log(ended.map(({ status, attempt, result }) => ({ status, attempt, result, cut })));
    const ends = ended.map(({ status, attempt }) => `${status} ${attempt}`);
    expect(new Set(ends)).toEqual(new Set(["success 1", "success 2"]));
    expect(ended.map(({ result }) => result)).not.toContain(cut);
    await expectOneEnd(history, runs);
    await service.stop();
    await namespace.untilEmpty();
  });
});
