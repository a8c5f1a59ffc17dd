import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { podFlags, podService } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER, TestNamespace } from "../support/kubernetes/real-cluster.ts";
import { serverApp } from "../support/servers/server-app.ts";
import { testService } from "../support/service.ts";
import { openStream } from "../support/stream-reader.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

const APP = {
  main: `
import os, time
def run(x=1):
    print("x is", x)
    return {"x": x, "host": os.uname().nodename, "secret": os.environ.get("KEY")}
def ticks(count):
    for number in range(count):
        yield {"n": number}
def wait():
    print("waits")
    while True:
        time.sleep(0.01)
`,
  // As little as a pod can ask for, so that all fit.
  toml: "[hardware]\ncpu = 0.5\nmemory = 0.2\n[scaling]\nmax_replicas = 3\ncooldown = 1\n",
};

describe.skipIf(!TEST_CLUSTER)("apps in pods", () => {
  verifies(
    ["kubernetes.same", "kubernetes.nothing-left"],
    "an app in a pod is called, streams, runs async, is cancelled and prints as everywhere",
    async () => {
      const { on, namespace } = await podService(databases, { app: APP });
      const { json } = await on.call("app", { x: 2 ** 53 });
      expect(json.result).toMatchObject({ x: 2 ** 53 });
      expect(json.result.host).toMatch(/^p-[a-z0-9]+-app-v1-s-/);
      await until("what it printed is in the log", () =>
        on.logs.some(({ text }) => text === "x is 9007199254740992"),
      );

      const stream = openStream(on, "app", { count: 2_000 }, { functionName: "ticks" });
      await stream.ended();
      expect(stream.messages).toHaveLength(2_000);

      const accepted = await on.call("app", { x: 7 }, { suffix: "?async=true" });
      expect(accepted.status).toBe(202);
      const runId = accepted.json.run_id as string;
      await until("the run is done", async () => (await on.ofRun("app", runId)).json.status === "success");

      const waiting = await on.call("app", {}, { functionName: "wait", suffix: "?async=true" });
      await until("it waits", () => on.logs.some(({ text }) => text === "waits"));
      await on.ofRun("app", waiting.json.run_id, "cancel", { method: "POST" });
      await until("it is cancelled", async () => {
        const { json: run } = await on.ofRun("app", waiting.json.run_id);
        return run.status === "cancelled";
      });
      await until("it scales to zero", () => on.ready("app") === 0);
      await namespace.untilEmpty();
    },
  );

  verifies("kubernetes.orphan", "pods that no service takes over end in order", async () => {
    const toml = "[hardware]\ncpu = 0.5\nmemory = 0.2\n";
    const apps = { app: { main: APP.main, toml } };
    const { on, namespace } = await podService(databases, apps, { keepSeats: true });
    expect((await on.call("app", { x: 1 })).json.result).toMatchObject({ x: 1 });
    await on.service.stop();
    const phases = async (): Promise<string[]> => {
      const pods = await namespace.list<{ status: { phase: string } }>("api/v1", "pods");
      return pods.map(({ status }) => status.phase);
    };
    expect(await phases()).toEqual(["Running"]);
    await until("it has ended", async () => !(await phases()).includes("Running"));
    expect(await phases()).toEqual(["Succeeded"]);
    // As docs/kubernetes.md says: deleting their owner removes all that is left.
    const kinds = ["configmaps", "pods", "secrets", "networkpolicies"];
    const [owner = ""] = await namespace.left(["configmaps"]);
    await namespace.remove("api/v1", "configmaps", owner.split("/")[1] ?? "");
    await until("nothing is left", async () => (await namespace.left(kinds)).length === 0);
  });

  verifies("kubernetes.servers", "an app that is a server of its own is called in a pod", async () => {
    const runtime = 'port = 8000\nreadycheck_endpoint = "/readyz"';
    const { on, namespace } = await podService(databases, { app: serverApp({ runtime, toml: APP.toml }) });
    const echoed = await on.call("app", { x: 1 }, { functionName: "echo" });
    expect(echoed.json).toMatchObject({ method: "POST", body: '{"x":1}', port: "8000" });
    const bytes = randomBytes(2_000_000).toString("base64");
    const headers = { "content-type": "text/plain" };
    const { text: hash } = await on.call("app", bytes, { functionName: "hash", headers });
    expect(hash).toBe(createHash("sha256").update(bytes).digest("hex"));
    const suffix = "?count=3000000";
    const large = await on.call("app", "", { functionName: "bytes", suffix, method: "GET" });
    expect(large.text).toHaveLength(3_000_000);
    await until("what it printed is in the log", () => on.logs.some(({ text }) => text === "sent 3000000"));
    await until("it scales to zero", () => on.ready("app") === 0);
    await namespace.untilEmpty();
  });

  verifies("kubernetes.storage", "what an app stores outlives its pod", async () => {
    const namespace = await TestNamespace.make();
    const folder = await namespace.claim("volumes");
    const main = `
import os, pathlib
PLACE = pathlib.Path(os.environ["PERSISTENT_STORAGE"]) / "kept"
def run(text=None):
    if text is not None:
        PLACE.write_text(text)
    return {"text": PLACE.read_text(), "host": os.uname().nodename}
`;
    const { databaseUrl } = await databases.fresh("postgres");
    const flags = { databaseUrl, ...(await podFlags(namespace)), kubernetesStorage: "volumes" };
    const on = await testService({ app: { main, toml: APP.toml } }, flags);
    const first = (await on.call("app", { text: "kept" })).json.result;
    expect(readFileSync(path.join(folder, on.service.owner.projectId, "kept"), "utf8")).toBe("kept");
    await until("its pod is gone", () => on.ready("app") === 0);
    const second = (await on.call("app")).json.result;
    expect([second.text, second.host === first.host]).toEqual(["kept", false]);
  });
});
