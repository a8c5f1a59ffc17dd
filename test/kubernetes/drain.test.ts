import { spawnSync } from "node:child_process";
import { describe, expect, onTestFinished } from "vitest";
import { run, scratchDirectory } from "../support/command-line.ts";
import { testDatabases } from "../support/databases.ts";
import { mayKill } from "../support/kubernetes/control-plane.ts";
import { writeKubectl } from "../support/kubernetes/kubectl.ts";
import { podService } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../support/kubernetes/real-cluster.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

const MAIN = "import os\ndef run():\n    return os.uname().nodename\n";
const TOML =
  "[hardware]\ncpu = 0.2\nmemory = 0.2\n[scaling]\nmin_replicas = 1\nmax_replicas = 1\nresponse_grace_period = 120\n";

describe.skipIf(!TEST_CLUSTER)("a machine that is drained", () => {
  verifies("kubernetes.drain", "loses an app's only replica when the next one is ready", async (context) => {
    // It takes another machine to go to, and nobody else's pods.
    if (!mayKill("kubelet2")) context.skip();
    const folder = scratchDirectory();
    writeKubectl(folder);
    const kubectl = `${folder}/kubectl`;
    const env = { KUBECONFIG: TEST_CLUSTER?.kubeconfig ?? "" };
    const { on, namespace } = await podService(databases, { app: { main: MAIN, toml: TOML } });
    const call = async (): Promise<string> => {
      const { status, json, text } = await on.call("app");
      if (status !== 200) throw new Error(text);
      return json.result as string;
    };
    const before = await call();
    const [pod] = await namespace.list<{ spec: { nodeName: string } }>("api/v1", "pods");
    const machine = pod?.spec.nodeName ?? "";
    onTestFinished(() => void spawnSync(kubectl, ["uncordon", machine], { env: { ...process.env, ...env } }));
    let isDrained = false;
    const ours = "app.kubernetes.io/managed-by=millrace";
    const args = ["drain", machine, "--force", "--delete-emptydir-data", "--pod-selector", ours];
    const drained = run(kubectl, args, { env }).finally(() => (isDrained = true));
    // Each throws if it is not answered.
    await until("it is empty", async () => {
      await call();
      return isDrained;
    });
    expect(await drained).toMatchObject({ code: 0 });
    expect(await call()).not.toBe(before);
    await on.service.stop();
    await namespace.untilEmpty();
  });
});
