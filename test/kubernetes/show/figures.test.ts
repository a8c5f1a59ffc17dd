import { describe, expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { podService } from "../../support/kubernetes/pod-service.ts";
import { CallHome, TEST_CLUSTER, type TestNamespace } from "../../support/kubernetes/real-cluster.ts";
import { type TestService, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

const STARTS = 7;
const FORKS = 15;
const MAX_START = 2;
const MAX_FORK = 1.5;
/** Both are held to as much, so that neither has more of the machine. */
const CPUS = 2;

const MAIN = `
import time
def run():
    return 1
def wait():
    while True:
        time.sleep(0.01)
`;
const ALONE = `[hardware]\ncpu = ${CPUS}\nmemory = 1\n[scaling]\nmax_replicas = 1\ncooldown = 0\n`;
const TWO = `[hardware]\ncpu = 1\nmemory = 0.5\n[scaling]\nmax_replicas = 2\ncooldown = 0\n`;

/** A pod of the same image with a Python that does nothing but call; gives how long that took. */
async function barePod(namespace: TestNamespace, home: CallHome, name: string): Promise<number> {
  const [host, port] = home.address.split(":");
  const call = `import socket; s = socket.create_connection((${JSON.stringify(host)}, ${port})); s.sendall(b"${name}\\n{}\\n"); s.recv(1)`;
  const from = performance.now();
  await namespace.create("api/v1", "pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 0,
      securityContext: { runAsNonRoot: true, runAsUser: 10_001, seccompProfile: { type: "RuntimeDefault" } },
      containers: [
        {
          name: "bare",
          image: namespace.cluster.workerImage,
          command: ["python3", "-I", "-c", call],
          resources: { limits: { cpu: String(CPUS), memory: "1Gi" }, requests: { cpu: "500m" } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
        },
      ],
    },
  });
  const { socket } = await home.caller(name);
  const ms = performance.now() - from;
  socket.destroy();
  await namespace.remove("api/v1", "pods", name);
  return ms;
}

async function timed(on: TestService): Promise<number> {
  const from = performance.now();
  const { status, text } = await on.call("app");
  if (status !== 200) throw new Error(text);
  return performance.now() - from;
}

/** The mean of each phase of a seat's start, since it was asked for. */
async function phasesOf({ service: { baseUrl, owner } }: TestService): Promise<Record<string, number>> {
  const response = await fetch(`${baseUrl}/metrics`, { headers: { authorization: `Bearer ${owner.token}` } });
  const text = await response.text();
  const found = text.matchAll(/^millrace_seat_start_seconds_(sum|count)\{phase="(\w+)"\} (\S+)$/gm);
  const values = new Map([...found].map(([, what, phase, value]) => [`${phase} ${what}`, Number(value)]));
  const phases = ["scheduled", "pulled", "connected", "fetched", "started", "imported"];
  return Object.fromEntries(
    phases.map((phase) => {
      const sum = values.get(`${phase} sum`) ?? 0;
      return [phase, Math.round((sum / (values.get(`${phase} count`) ?? 1)) * 1000)];
    }),
  );
}

/** The second replica of an app, while the first is busy; the median. */
async function forkMs(on: TestService): Promise<number> {
  const { json } = await on.call("app", {}, { functionName: "wait", suffix: "?async=true" });
  await until("it runs", async () => (await on.ofRun("app", json.run_id)).json.status === "running");
  const spans: number[] = [];
  for (let n = 0; n < FORKS; n += 1) {
    await until("there is one", () => (on.apps.get("app")?.pool.replicas.size ?? 0) === 1);
    spans.push(await timed(on));
  }
  await on.ofRun("app", json.run_id, "cancel", { method: "POST" });
  return median(spans);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

describe.skipIf(!TEST_CLUSTER)("how long starts take", () => {
  verifies("kubernetes.start-time", "from zero, beside a bare pod of the same image", async () => {
    const { on, namespace } = await podService(databases, { app: { main: MAIN, toml: ALONE } });
    const home = await CallHome.open();
    const bare: number[] = [];
    const whole: number[] = [];
    for (let n = 0; n < STARTS; n += 1) {
      bare.push(await barePod(namespace, home, `bare-${n}`));
      await until("it is gone", async () => (await namespace.list("api/v1", "pods")).length === 0);
      whole.push(await timed(on));
      await until("the app is at zero", () => on.ready("app") === 0);
      await namespace.untilEmpty();
    }
    const ratio = median(whole) / median(bare);
    const phases = await phasesOf(on);
    console.log({ bareMs: median(bare), fromZeroMs: median(whole), ratio, phases, bare, whole });
    expect(ratio).toBeLessThanOrEqual(MAX_START);
  });

  verifies("kubernetes.start-time", "one more replica in a seat, beside a local fork", async () => {
    const apps = { app: { main: MAIN, toml: TWO } };
    const { on } = await podService(databases, apps, { replicasPerSeat: 2 });
    const local = await testService(apps, WITHOUT_WALLS);
    const rounds: { local: number; seat: number }[] = [];
    for (let n = 0; n < 3; n += 1) rounds.push({ local: await forkMs(local), seat: await forkMs(on) });
    const ratio = median(rounds.map(({ local: fork, seat }) => seat / fork));
    console.log({ rounds, ratio });
    expect(ratio).toBeLessThanOrEqual(MAX_FORK);
  });
});
