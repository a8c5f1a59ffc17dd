import { internals } from "../support/test-settings.ts";
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { describe, expect, onTestFinished } from "vitest";
import { checkKubernetes } from "../../src/cli/operator/doctor/engine-checks.ts";
import { KubernetesApi } from "../../src/engines/kubernetes/api.ts";
import { findCluster } from "../../src/engines/kubernetes/cluster-access.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { KubernetesPlace } from "../../src/engines/kubernetes/place.ts";
import type { PlacedSeat } from "../../src/engines/agent/seat-place.ts";
import type { Workload } from "../../src/engines/engine.ts";
import { freePort } from "../support/free-port.ts";
import { agentOf } from "../support/kubernetes/pod-process.ts";
import { CallHome, TEST_CLUSTER, TestNamespace } from "../support/kubernetes/real-cluster.ts";
import { WORKLOAD, kubernetesSettings, orderFor } from "../support/kubernetes/sample.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

/** As little as a pod can ask for, so that all fit. */
const SMALL: Workload = {
  ...WORKLOAD,
  limits: { memoryBytes: 64e6, cpus: 0.5, cpuShare: 0.1 },
  graceMs: 1_000,
};

type Begun = { readonly seat: PlacedSeat; readonly told: string[] };

/** Pods of a test that play agents: they do what their ticket says. */
class Pods {
  readonly namespace: TestNamespace;
  readonly home: CallHome;
  readonly installationId = randomUUID();

  private constructor(namespace: TestNamespace, home: CallHome) {
    this.namespace = namespace;
    this.home = home;
  }

  static async open(): Promise<Pods> {
    const home = await CallHome.open();
    return new Pods(await TestNamespace.make(), home);
  }

  /** A service of the installation. */
  async service(
    nodeId = "node-1",
    isHeld: (nodeId: string) => boolean = () => true,
    env: Record<string, string> = {},
  ) {
    const settings = kubernetesSettings({
      MILLRACE_KUBERNETES_CONFIG: this.namespace.kubeconfig,
      MILLRACE_KUBERNETES_IMAGE: this.namespace.cluster.standInImage,
      ...env,
    });
    const place = await KubernetesPlace.open({
      settings,
      api: new KubernetesApi(findCluster(settings, {})),
      clock: systemClock,
      log: pino({ level: "silent" }),
      whose: { installationId: this.installationId, nodeId },
      python: "3.11.7",
      seatAddresses: [this.home.address],
      isHeld: (pod) => isHeld(pod.nodeId),
    });
    let isOpen = true;
    const close = async (): Promise<void> => {
      if (isOpen) await place.close();
      isOpen = false;
    };
    onTestFinished(close);
    const begin = (ticket: string, workload: Workload = SMALL): Begun => {
      const told: string[] = [];
      const order = { ...orderFor(randomUUID(), [this.home.address]), ticket };
      const seat = place.begin(order, workload, {
        onPhase: (phase) => told.push(phase),
        onError: (error) => told.push(String(error)),
      });
      return { seat, told };
    };
    return { begin, close, settings };
  }
}

async function ended({ seat }: Begun): Promise<string> {
  return (await seat.exited).detail;
}

describe.skipIf(!TEST_CLUSTER)("pods", () => {
  verifies(
    ["kubernetes.walls", "kubernetes.no-secrets", "kubernetes.nothing-left"],
    "a seat is a pod of the restricted profile that calls home, and leaves nothing behind",
    async () => {
      const pods = await Pods.open();
      const { begin } = await pods.service();
      const begun = begin("stay");
      const { seen } = await pods.home.caller("stay");
      expect(seen).toMatchObject({ uid: 10_001, has_token: false, is_root_writable: false });
      expect(seen["folders"]).toEqual(["/work", "/tmp", "/dev/shm"]);
      const variables = (seen["variables"] as string[]).filter((name) => !name.startsWith("KUBERNETES_"));
      expect(variables).toEqual(expect.arrayContaining(["HOME", "TMPDIR"]));
      expect(variables).not.toContain("API_KEY");
      await until("its phases", () => begun.told.join() === "scheduled,pulled");
      expect(await pods.namespace.left(["configmaps"])).toHaveLength(1);
      expect(await pods.namespace.left(["networkpolicies"])).toHaveLength(3);
      begun.seat.kill();
      await begun.seat.exited;
      await pods.namespace.untilEmpty();
    },
  );

  verifies("kubernetes.ends", "a pod ends by itself, by its memory, by a kill from outside", async () => {
    const pods = await Pods.open();
    const { begin } = await pods.service();
    expect(await ended(begin("exit 3"))).toBe("exit code 3");
    const full = begin("memory");
    expect(await full.seat.exited).toMatchObject({ isOutOfMemory: true });
    const killed = begin("stay 1");
    await pods.home.caller("stay 1");
    process.kill(agentOf(killed.seat.placeName), "SIGKILL");
    expect(await ended(killed)).toBe("killed by SIGKILL");
    const deleted = begin("stay 2");
    await pods.home.caller("stay 2");
    await pods.namespace.remove("api/v1", "pods", deleted.seat.placeName);
    await deleted.seat.exited;
    await pods.namespace.untilEmpty();
  });

  verifies("kubernetes.reasons", "no machine is large enough; an image cannot be pulled", async () => {
    const pods = await Pods.open();
    const { begin } = await pods.service();
    const large = begin("large", { ...SMALL, limits: { memoryBytes: 64e6, cpus: 500, cpuShare: 500 } });
    await until(
      "no machine",
      () => large.seat.obstacle()?.startsWith("its pod has no machine yet: 0/") === true,
    );
    const other = { MILLRACE_KUBERNETES_IMAGE: "127.0.0.1:1/nowhere/missing:1" };
    const missing = (await pods.service("node-2", () => true, other)).begin("missing");
    await until("no image", () => missing.seat.obstacle()?.startsWith("its image cannot be pulled") === true);
    for (const { seat } of [large, missing]) seat.kill();
    await Promise.all([large.seat.exited, missing.seat.exited]);
    await pods.namespace.untilEmpty();
  });

  verifies("kubernetes.quota", "a pod that a quota forbids comes when another has gone", async () => {
    const pods = await Pods.open();
    const quota = {
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { name: "few" },
      spec: { hard: { pods: "1" } },
    };
    await pods.namespace.create("api/v1", "resourcequotas", quota);
    const { begin } = await pods.service();
    const first = begin("first");
    await pods.home.caller("first");
    const second = begin("second");
    await until("the quota", () => second.seat.obstacle()?.includes("exceeded quota") === true);
    first.seat.kill();
    await pods.home.caller("second");
    expect(second.seat.obstacle()).toBeNull();
    second.seat.kill();
    await second.seat.exited;
    await pods.namespace.untilEmpty();
  });

  verifies(
    "kubernetes.sweep",
    "pods of a service that died are swept by another, and none of a living one",
    async () => {
      const pods = await Pods.open();
      const dead = new Set<string>();
      const gone = await pods.service("node-1");
      gone.begin("left behind");
      await pods.home.caller("left behind");
      // A service that is killed closes nothing; this one only stops looking.
      await gone.close();
      const living = await pods.service("node-2");
      const stays = living.begin("stays");
      const { socket } = await pods.home.caller("stays");
      const sweeper = await pods.service("node-3", (nodeId) => !dead.has(nodeId));
      dead.add("node-1");
      await until("only the living one's is left", async () => {
        const left = await pods.namespace.left(["pods"]);
        return left.length === 1 && left[0] === `pods/${stays.seat.placeName}`;
      });
      expect(socket.readyState).toBe("open");
      stays.seat.kill();
      await stays.seat.exited;
      await sweeper.close();
      await pods.namespace.untilEmpty();
    },
  );

  verifies(
    "kubernetes.doctor-pod",
    "doctor starts a pod of the worker image, which has to reach this machine",
    async () => {
      const pods = await Pods.open();
      const { workerImage, hostAddress } = pods.namespace.cluster;
      const env = { MILLRACE_KUBERNETES_IMAGE: workerImage, MILLRACE_SEAT_URL: `https://${hostAddress}:1` };
      const { settings: wrong } = await pods.service("node-1", () => true, {
        ...env,
        ...internals({ seatPort: await freePort() }),
      });
      expect((await checkKubernetes(wrong, {})).at(-1)).toMatchObject({
        status: "fail",
        message: expect.stringContaining(`${hostAddress}:1 cannot be reached: `) as string,
      });
      const url = `https://${hostAddress}:${await freePort()}`;
      const { settings } = await pods.service("node-2", () => true, { ...env, MILLRACE_SEAT_URL: url });
      const well = await checkKubernetes(settings, {});
      expect(well.map(({ status }) => status)).toEqual(["ok", "ok"]);
      expect(well.at(-1)?.message).toBe(
        `a pod of ${workerImage} has all that it needs, and reaches ${new URL(url).host}`,
      );
      await pods.namespace.untilEmpty();
    },
  );

  verifies("kubernetes.doctor", "doctor finds every permission, and the one that is missing", async () => {
    const pods = await Pods.open();
    const { settings } = await pods.service("node-1", () => true, {
      MILLRACE_SEAT_URL: "https://10.0.0.5:4300",
    });
    const well = await checkKubernetes(settings, {});
    expect(well[0]?.status).toBe("ok");
    await pods.namespace.patch("apis/rbac.authorization.k8s.io/v1", "roles", "millrace", {
      rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["create", "delete", "get", "list"] }],
    });
    await until("the cluster goes by the new role", async () => {
      const messages = (await checkKubernetes(settings, {})).map(({ message }) => message.split(" in ")[0]);
      return messages.join() === MISSING.join();
    });
  });
});

const MISSING = [
  "may not create configmaps",
  "may not patch configmaps",
  "may not create networkpolicies.networking.k8s.io",
  "may not patch networkpolicies.networking.k8s.io",
  "may not create secrets",
  "may not watch pods",
  "may not list events",
];
