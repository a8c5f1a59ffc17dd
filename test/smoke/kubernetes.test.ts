import { describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { agentOf } from "../support/kubernetes/pod-process.ts";
import { podService } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../support/kubernetes/real-cluster.ts";
import { openStream } from "../support/stream-reader.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

const APP = {
  main: `
import os
def run():
    return os.uname().nodename
def ticks(count):
    yield from range(count)
`,
  toml: "[hardware]\ncpu = 1\nmemory = 0.2\n[scaling]\ncooldown = 1\n",
};

describe.skipIf(!TEST_CLUSTER)("Kubernetes in short", () => {
  verifies("kubernetes.same", "deploy, call, stream, kill a pod", async () => {
    const { on, namespace } = await podService(databases, { app: APP });
    const pod = (await on.call("app")).json.result as string;
    expect(pod).toMatch(/^p-[a-z0-9]+-app-v1-s-/);
    const stream = openStream(on, "app", { count: 500 }, { functionName: "ticks" });
    await stream.ended();
    expect(stream.messages).toHaveLength(500);
    process.kill(agentOf(pod), "SIGKILL");
    await until("its replica is gone", () => on.ready("app") === 0);
    const next = (await on.call("app")).json.result as string;
    expect(next).toMatch(/^p-[a-z0-9]+-app-v1-s-/);
    expect(next).not.toBe(pod);
    await until("the app is at zero", () => on.ready("app") === 0);
    await namespace.untilEmpty();
  });
});
