import { describe, expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { machinesOf } from "../../support/kubernetes/control-plane.ts";
import { podService } from "../../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../../support/kubernetes/real-cluster.ts";
import { until } from "../../support/until.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";
import { Load, echoMain } from "./load.ts";
import { expectOneEnd, openSite } from "./site.ts";

const databases = testDatabases();

const PODS = 8;
const DEPLOYS = 20;
const WAIT = "import time\ndef run():\n    while True:\n        time.sleep(0.01)\n";
const SMALL = "[hardware]\ncpu = 1\nmemory = 0.2\n";

type Pod = { readonly spec: { readonly nodeName?: string } };

describe.skipIf(!TEST_CLUSTER)("many pods", () => {
  verifies(
    ["kubernetes.scale", "kubernetes.nothing-left"],
    "from nothing to eight pods on all machines, and back",
    async () => {
      const toml = `${SMALL}[scaling]\nmax_replicas = ${PODS}\ncooldown = 1\n`;
      const { on, namespace } = await podService(databases, { app: { main: WAIT, toml } });
      const machines = await machinesOf();
      const startedAt = Date.now();
      const runs = await Promise.all(
        Array.from({ length: PODS }, () => on.call("app", {}, { suffix: "?async=true" })),
      );
      await until("eight pods are ready", () => on.ready("app") === PODS);
      const readyMs = Date.now() - startedAt;
      const pods = await namespace.list<Pod>("api/v1", "pods");
      expect(pods).toHaveLength(PODS);
      const used = new Set(pods.map(({ spec }) => spec.nodeName));
      expect(used.size).toBeGreaterThanOrEqual(Math.min(2, machines.length));
      for (const { json } of runs) await on.ofRun("app", json.run_id, "cancel", { method: "POST" });
      const cancelledAt = Date.now();
      await until("none is left", () => on.ready("app") === 0);
      await namespace.untilEmpty();
      console.log({ readyMs, goneMs: Date.now() - cancelledAt, machines: used.size });
    },
  );

  verifies("kubernetes.deploys", `${DEPLOYS} deploys under load: no call fails`, async () => {
    const toml = `${SMALL}[scaling]\nmax_replicas = 2\nmax_attempts = 20\nreplica_concurrency = 4\ncooldown = 1\n`;
    const { service, namespace, history } = await openSite(databases, { main: echoMain(0), toml });
    const load = new Load(service);
    await load.untilAnswered(1);
    const client = new DeployClient(service, "app");
    for (let version = 1; version <= DEPLOYS; version += 1) {
      const zip = await zipOf({ "main.py": echoMain(version), "millrace.toml": toml });
      const { status } = await client.deploy(zip);
      expect({ version, status }).toEqual({ version, status: "success" });
      await until("a call met it", () => load.versions.has(version) || load.failures.length > 0);
    }
    await load.stop();
    await load.keep();
    console.log({ calls: load.answered, runs: load.accepted.size, pods: load.hosts.size });
    expect([load.failures, load.wrong]).toEqual([[], []]);
    expect(load.versions.size).toBe(DEPLOYS + 1);
    await expectOneEnd(history, [...load.accepted.keys()]);
    await service.stop();
    await namespace.untilEmpty();
  });
});
