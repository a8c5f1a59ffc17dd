import { execFileSync, spawn } from "node:child_process";
import { existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { onTestFinished } from "vitest";
import { KubernetesApi } from "../../../src/engines/kubernetes/api.ts";
import { readKubeconfig } from "../../../src/engines/kubernetes/cluster-access.ts";
import { until } from "../until.ts";
import { socketsOf } from "./cluster-setup.ts";
import { TEST_CLUSTER } from "./real-cluster.ts";
import type { TestRegistry } from "./test-registry.ts";

const FOLDER = TEST_CLUSTER?.folder ?? null;
const HOME = path.dirname(FOLDER ?? "");

/** Whether a part of the cluster is ours to kill: `apiserver`, `kubelet2`. */
export function mayKill(part: string): boolean {
  return FOLDER !== null && existsSync(path.join(FOLDER, `${part}.pid`));
}

/** Kills the API server, and waits until it is gone. Gives a function that starts it again. */
export async function killApiServer(): Promise<() => Promise<void>> {
  const restart = killPart("apiserver");
  await until("the API server is gone", async () => (await ask("/api/v1/namespaces/default")) === null);
  return async () => {
    restart();
    await until("the API server answers", async () => (await ask("/api/v1/namespaces/default")) !== null);
  };
}

/**
 * Kills the second machine's kubelet and containerd. Gives a function that starts them again, which happens at the test's
 * end if nobody did.
 */
export function killMachine(): () => void {
  const restarts = ["kubelet2", "containerd2"].map(killPart);
  return () => {
    for (const restart of restarts.toReversed()) restart();
  };
}

/** Kills a part of the cluster. Gives a function that starts it again, which happens at the test's end if nobody did. */
function killPart(part: string): () => void {
  const folder = FOLDER ?? "";
  const pidFile = path.join(folder, `${part}.pid`);
  const pid = Number(readFileSync(pidFile, "utf8"));
  const [program = "", ...args] = wordsOf(`/proc/${pid}/cmdline`);
  const env = Object.fromEntries(
    wordsOf(`/proc/${pid}/environ`).map((word) => {
      const at = word.indexOf("=");
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
  process.kill(pid, "SIGKILL");
  let isBack = false;
  let isOver = false;
  const start = (): void => {
    const log = openSync(path.join(folder, `${part}.log`), "a");
    // It is the cluster's, and goes on when the test is over.
    const child = spawn(program, args, { env, detached: true, stdio: ["ignore", log, log] });
    child.unref();
    writeFileSync(pidFile, String(child.pid));
    // As systemd does: a kubelet gives up if its containerd is not ready yet.
    child.on("exit", () => void (isOver || start()));
  };
  const restart = (): void => {
    if (!isBack) start();
    isBack = true;
  };
  onTestFinished(() => {
    restart();
    isOver = true;
  });
  return restart;
}

/** Whether a machine of the cluster is ready, as the cluster sees it. */
export async function isReady(machine: string): Promise<boolean> {
  const node = (await ask(`/api/v1/nodes/${machine}`)) as {
    status: { conditions: { type: string; status: string }[] };
  } | null;
  return node?.status.conditions.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

/** A machine of the cluster, and the processor time that it has to give. */
export type Machine = { readonly name: string; readonly cpuMillis: number };

export async function machinesOf(): Promise<Machine[]> {
  const { items } = (await ask("/api/v1/nodes")) as {
    items: { metadata: { name: string }; status: { allocatable: { cpu: string } } }[];
  };
  return items.map(({ metadata: { name }, status: { allocatable } }) => {
    const [, amount = "0", unit] = /^(\d+)(m?)$/.exec(allocatable.cpu) ?? [];
    return { name, cpuMillis: Number(amount) * (unit === "m" ? 1 : 1000) };
  });
}

/** Nothing passes between the pods of a machine and anybody else, until the answer is called, or the test is over. */
export function cutOff(bridge: string): () => void {
  const set = (state: "up" | "down"): void => void execFileSync("ip", ["link", "set", bridge, state]);
  set("down");
  const join = (): void => set("up");
  onTestFinished(join);
  return join;
}

/** Gives an image that every machine has another name there. */
export function giveImage(image: string, name: string): void {
  for (const socket of socketsOf(HOME)) onImages(socket, ["tag", "--force", image, name]);
}

/** Puts an image that the machines have into a registry, under a name that says which one. */
export function pushImage(image: string, name: string, { login, folder }: TestRegistry): void {
  const [socket = ""] = socketsOf(HOME);
  onImages(socket, ["tag", "--force", image, name]);
  const opens = ["--user", `${login.username}:${login.password}`, "--tlscacert", path.join(folder, "ca.pem")];
  onImages(socket, ["push", ...opens, name]);
}

function onImages(socket: string, words: readonly string[]): void {
  const tool = path.join(HOME, "dtool/usr/bin/ctr");
  execFileSync(tool, ["-a", socket, "-n", "k8s.io", "images", ...words], { stdio: "ignore" });
}

function wordsOf(file: string): string[] {
  return readFileSync(file, "utf8").split("\0").slice(0, -1);
}

/** As the operator; null where nobody answers. */
async function ask(place: string): Promise<unknown> {
  const api = new KubernetesApi(readKubeconfig(TEST_CLUSTER?.kubeconfig ?? ""));
  try {
    return await api.ask({ method: "GET", path: place });
  } catch {
    return null;
  } finally {
    api.close();
  }
}
