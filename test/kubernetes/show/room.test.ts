import { describe, expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { giveImage, machinesOf, mayKill } from "../../support/kubernetes/control-plane.ts";
import { podService, type PodService } from "../../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER, type TestNamespace } from "../../support/kubernetes/real-cluster.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

const MAIN = "def run():\n    return 1\n";
/** Who waits for a pod is refused after that. */
const PATIENCE = '[deployment]\ndeployment_initialization_timeout = "15s"\n';
const TOML = `[hardware]\ncpu = 1\nmemory = 0.2\n${PATIENCE}`;
const RECOVERY_MS = 10_000;
/** The cluster looks for an image that it did not find every 10 s or so. */
const LOOK_MS = 15_000;

/** Calls are refused with a reason until that goes; then they are answered. Gives how long that took. */
async function told(
  { on, namespace }: PodService,
  reason: RegExp,
  mend: () => Promise<unknown>,
): Promise<number> {
  const first = on.call("app");
  await until("the replica's reason is told", async () => reason.test((await pendingReason(on)) ?? ""));
  const refused = await first;
  expect([refused.status, refused.json.message]).toEqual([503, expect.stringMatching(reason)]);
  await mend();
  const mendedAt = Date.now();
  await until("a call is answered", async () => (await on.call("app")).status === 200);
  const ms = Date.now() - mendedAt;
  console.log({ reason: refused.json.message, answeredAfterMs: ms });
  await on.service.stop();
  await namespace.untilEmpty();
  return ms;
}

async function pendingReason({ service }: PodService["on"]): Promise<string | null> {
  const { baseUrl, owner } = service;
  const path = `/v2/projects/${owner.projectId}/apps/${owner.projectId}-app/containers`;
  const response = await fetch(baseUrl + path, { headers: { authorization: `Bearer ${owner.token}` } });
  const [container] = (await response.json()) as { pendingReason: string | null }[];
  return container?.pendingReason ?? null;
}

/** Reserves all but a tenth of a processor of a machine. */
async function fill(namespace: TestNamespace, machine: string, cpuMillis: number): Promise<string> {
  const name = `filler-${machine}`;
  await namespace.create("api/v1", "pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      nodeSelector: { "kubernetes.io/hostname": machine },
      terminationGracePeriodSeconds: 0,
      securityContext: { runAsNonRoot: true, runAsUser: 10_001, seccompProfile: { type: "RuntimeDefault" } },
      containers: [
        {
          name: "filler",
          image: namespace.cluster.workerImage,
          command: ["python3", "-c", "import signal; signal.pause()"],
          resources: { requests: { cpu: `${cpuMillis - 100}m` } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
        },
      ],
    },
  });
  return name;
}

describe.skipIf(!TEST_CLUSTER)("no room", () => {
  verifies(
    ["kubernetes.room", "kubernetes.reasons"],
    "every machine is full, then one is not",
    async (context) => {
      if (!mayKill("apiserver")) context.skip();
      const site = await podService(databases, { app: { main: MAIN, toml: TOML } });
      const { namespace } = site;
      const fillers: string[] = [];
      for (const { name, cpuMillis } of await machinesOf())
        fillers.push(await fill(namespace, name, cpuMillis));
      await until("all are full", async () => {
        const pods = await namespace.list<{ spec: { nodeName?: string } }>("api/v1", "pods");
        return pods.every(({ spec }) => spec.nodeName !== undefined);
      });
      const ms = await told(site, /has no machine yet: .*Insufficient cpu/, async () => {
        for (const name of fillers) await namespace.remove("api/v1", "pods", name);
      });
      expect(ms).toBeLessThanOrEqual(RECOVERY_MS);
    },
  );

  verifies(["kubernetes.room", "kubernetes.quota"], "a quota is used up, then it is not", async () => {
    const site = await podService(databases, { app: { main: MAIN, toml: TOML } });
    const { namespace } = site;
    const metadata = { name: "none" };
    const quota = { apiVersion: "v1", kind: "ResourceQuota", metadata, spec: { hard: { pods: "0" } } };
    await namespace.create("api/v1", "resourcequotas", quota);
    const remove = () => namespace.remove("api/v1", "resourcequotas", metadata.name);
    expect(await told(site, /exceeded quota/, remove)).toBeLessThanOrEqual(RECOVERY_MS);
  });

  verifies("kubernetes.room", "an image cannot be pulled, then it is there", async (context) => {
    if (!mayKill("apiserver")) context.skip();
    const kubernetesImage = `127.0.0.1:1/nowhere/missing:${Date.now()}`;
    const site = await podService(databases, { app: { main: MAIN, toml: TOML } }, { kubernetesImage });
    const mend = async () => giveImage(site.namespace.cluster.workerImage, kubernetesImage);
    expect(await told(site, /its image cannot be pulled/, mend)).toBeLessThanOrEqual(LOOK_MS);
  });
});
