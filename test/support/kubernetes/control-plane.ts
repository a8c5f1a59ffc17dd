import { spawn } from "node:child_process";
import { openSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { onTestFinished } from "vitest";
import { KubernetesApi } from "../../../src/host/kubernetes/api.ts";
import { readKubeconfig } from "../../../src/host/kubernetes/kubeconfig.ts";
import { until } from "../until.ts";
import { TEST_CLUSTER } from "./real-cluster.ts";

/** Whether the API server of the cluster is ours to kill. */
export const MAY_BREAK = TEST_CLUSTER?.folder !== null && TEST_CLUSTER !== null;

/** Kills the API server. Gives a function that starts it again, which happens at the test's end if nobody did. */
export async function killApiServer(): Promise<() => Promise<void>> {
  const folder = TEST_CLUSTER?.folder ?? "";
  const pidFile = path.join(folder, "apiserver.pid");
  const pid = Number(readFileSync(pidFile, "utf8"));
  const [program = "", ...args] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  process.kill(pid, "SIGKILL");
  let isBack = false;
  const restart = async (): Promise<void> => {
    if (isBack) return;
    isBack = true;
    const log = openSync(path.join(folder, "apiserver.log"), "a");
    // It is the cluster's, and goes on when the test is over.
    const child = spawn(program, args, { detached: true, stdio: ["ignore", log, log] });
    child.unref();
    writeFileSync(pidFile, String(child.pid));
    await until("the API server answers", async () => await answers());
  };
  onTestFinished(restart);
  await until("the API server is gone", async () => !(await answers()));
  return restart;
}

async function answers(): Promise<boolean> {
  const api = new KubernetesApi(readKubeconfig(TEST_CLUSTER?.kubeconfig ?? ""));
  try {
    await api.ask({ method: "GET", path: "/api/v1/namespaces/default" });
    return true;
  } catch {
    return false;
  } finally {
    api.close();
  }
}
