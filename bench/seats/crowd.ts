// What 1,000 pods cost the service that has them, on machines that kwok plays: `node bench/seats/crowd.ts [--pods 1000]
// [--minutes 2] [--rounds 15]`. MILLRACE_TEST_CLUSTER names a folder with kube-up.sh, and MILLRACE_KWOK the program kwok.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { KubernetesApi } from "../../src/engines/kubernetes/api.ts";
import { readKubeconfig } from "../../src/engines/kubernetes/cluster-access.ts";
import { type Child, startChild, stopAll, withOpenFiles } from "../processes.ts";
import { makeScratchDir, removeScratchDirs } from "../scratch.ts";
import type { Running } from "../subject.ts";
import { measureSync } from "../sync.ts";
import { ratio } from "../targets.ts";
import { STAGES } from "./kwok-stages.ts";

const { values } = parseArgs({
  options: {
    pods: { type: "string", default: "1000" },
    minutes: { type: "string", default: "2" },
    rounds: { type: "string", default: "15" },
  },
});
const [pods, minutes, rounds] = [values.pods, values.minutes, values.rounds].map(Number) as [
  number,
  number,
  number,
];
const MACHINES = 20;

type Look = {
  readonly requests: number;
  readonly cpuMs: number;
  readonly heapBytes: number;
  readonly rssBytes: number;
};

const need = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}`);
  return value;
};

function print(what: string, figure: string): void {
  console.log(`${what.padEnd(60)}${figure}`);
}

async function ask<T>(child: Child, word: string): Promise<T> {
  child.send(word);
  return JSON.parse(await child.nextLine()) as T;
}

/** A service beside so many pods. */
async function start(count: number, kubeconfig: string): Promise<{ child: Child; running: Running }> {
  const args = [
    "--expose-gc",
    join(import.meta.dirname, "crowd-child.ts"),
    makeScratchDir(),
    join(import.meta.dirname, "../apps/hello"),
    String(count),
    kubeconfig,
  ];
  const child = startChild(...withOpenFiles(process.execPath, args));
  const { url, token } = JSON.parse(await child.nextLine()) as { url: string; token: string };
  const headers = { Authorization: `Bearer ${token}` };
  return { child, running: { url, headers, pid: child.pid, stop: async () => {} } };
}

async function makeMachines(kubeconfig: string): Promise<void> {
  const api = new KubernetesApi(readKubeconfig(kubeconfig));
  const resources = { cpu: "64", memory: "256Gi", pods: "200" };
  for (let n = 0; n < MACHINES; n += 1) {
    const metadata = {
      name: `fake-${n}`,
      labels: { type: "kwok", "kubernetes.io/hostname": `fake-${n}` },
      annotations: { "kwok.x-k8s.io/node": "fake" },
    };
    const conditions = [{ type: "Ready", status: "True", reason: "Played", lastHeartbeatTime: new Date() }];
    const status = { allocatable: resources, capacity: resources, conditions };
    const body = { apiVersion: "v1", kind: "Node", metadata, status };
    await api.ask({ method: "POST", path: "/api/v1/nodes", body });
  }
  api.close();
}

/** Makes the pods, watches them rest, and removes them. */
async function measurePods(child: Child, plain: Child): Promise<void> {
  const before = await ask<Look>(child, "look");
  const beganAt = performance.now();
  await ask(child, "begin");
  const seconds = (performance.now() - beganAt) / 1000;
  const running = await ask<Look>(child, "look");
  const used = (later: Look, earlier: Look): number => later.cpuMs - earlier.cpuMs;
  print(`until ${pods} pods run`, `${seconds.toFixed(1)} s`);
  print("processor time for that", `${Math.round(used(running, before))} ms`);
  print("requests for that", String(running.requests - before.requests));
  print("memory for each", `${((running.heapBytes - before.heapBytes) / 1024 / pods).toFixed(1)} KB of heap`);
  print("memory of the process", `${Math.round(running.rssBytes / 1e6)} MB`);
  const others = await ask<Look>(plain, "look");
  await pause(minutes * 60_000);
  const rested = await ask<Look>(child, "look");
  const plainRested = await ask<Look>(plain, "look");
  print("a minute of rest: requests", ((rested.requests - running.requests) / minutes).toFixed(1));
  print("a minute of rest: processor time", `${Math.round(used(rested, running) / minutes)} ms`);
  print(
    "a minute of rest: the same of a service without pods",
    `${Math.round(used(plainRested, others) / minutes)} ms`,
  );
}

async function measureCalls(services: readonly Running[]): Promise<void> {
  const [withPods, without] = services as [Running, Running];
  const subjects = await measureSync(
    [
      { id: "pod", name: "beside the pods", expects: '"hello ada"', start: async () => withPods },
      { id: "millrace", name: "without them", expects: '"hello ada"', start: async () => without },
    ],
    { rounds, measureMs: 1000, warmUpMs: 2000 },
  );
  for (const connections of [32, 1] as const) {
    const { value, spread } = ratio(subjects[0], subjects[1], connections, (round) => round.callsPerSecond);
    const range = spread?.map((each) => each.toFixed(2)).join(" to ");
    print(
      `calls/s beside the pods, of those without, ${connections} connections`,
      `${value?.toFixed(2)} (${range})`,
    );
  }
}

async function main(kubeconfig: string): Promise<void> {
  await makeMachines(kubeconfig);
  const crowded = await start(pods, kubeconfig);
  const plain = await start(0, kubeconfig);
  await measurePods(crowded.child, plain.child);
  await measureCalls([crowded.running, plain.running]);
  const beganAt = performance.now();
  await ask(crowded.child, "end");
  print("until all are removed", `${((performance.now() - beganAt) / 1000).toFixed(1)} s`);
}

const script = join(need("MILLRACE_TEST_CLUSTER"), "kube-up.sh");
const kwok = need("MILLRACE_KWOK");
const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
const home = process.env["KUBE_HOME"] ?? join(cache, "millrace-cluster");
const config = join(home, "kr", "admin.conf");
if (existsSync(config)) throw new Error("a cluster runs there already");
// No machine of its own: all are played.
const env = { ...process.env, NODES: "0" };
execFileSync("bash", [script, "up"], { stdio: "inherit", env });
const stages = join(makeScratchDir(), "stages.yaml");
writeFileSync(stages, STAGES);
const args = [
  "--kubeconfig",
  config,
  "--config",
  stages,
  "--manage-all-nodes=true",
  "--node-lease-duration-seconds=40",
];
// It complains of each pod that was gone before it looked twice.
const player = spawn(kwok, args, { stdio: "ignore" });
try {
  await main(config);
} finally {
  await stopAll();
  player.kill("SIGTERM");
  execFileSync("bash", [script, "down"], { stdio: "inherit", env });
  removeScratchDirs();
}
