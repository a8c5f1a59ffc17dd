import { describe, expect } from "vitest";
import { Client } from "../integration/cli/client.ts";
import { testDatabases } from "../support/databases.ts";
import { machinesOf } from "../support/kubernetes/control-plane.ts";
import { SPREAD, podService, usedMachines } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../support/kubernetes/real-cluster.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

const MAIN = `
import os
import time

if os.environ.get("BREAK"):
    raise ValueError("told to break")


def run(seconds: float = 0):
    time.sleep(seconds)
    return [os.environ.get("GREETING", "none"), os.uname().nodename]
`;
const TOML = "[hardware]\ncpu = 0.2\nmemory = 0.2\n[scaling]\nmin_replicas = 2\nmax_replicas = 2\n";

describe.skipIf(!TEST_CLUSTER)("an app in pods that is restarted", () => {
  verifies("kubernetes.restart", "has other pods, on every machine, and no call fails", async () => {
    const { on, namespace } = await podService(databases, { app: { main: MAIN, toml: TOML } }, SPREAD);
    const client = new Client(on);
    const ask = async (fields: object = {}): Promise<[string, string]> => {
      const { status, json, text } = await on.call("app", fields);
      if (status !== 200) throw new Error(text);
      return json.result as [string, string];
    };
    const pods = async (): Promise<string[]> => await namespace.left(["pods"]);
    await until("both pods are ready", () => on.ready("app") === 2);
    const machines = Math.min(2, (await machinesOf()).length);
    expect(await usedMachines(namespace)).toHaveLength(machines);
    const before = await pods();

    // One call is under way all the time, and others keep coming. Each throws if it is not answered.
    const long = ask({ seconds: 3 });
    const over = new AbortController();
    const callers = Array.from({ length: 3 }, async () => {
      while (!over.signal.aborted) await ask();
    });
    expect(await client.ok("restart", "app")).toBe("app is restarted.\n");
    const [, host] = await ask();
    expect(before).not.toContain(`pods/${host}`);
    expect(before).toContain(`pods/${(await long)[1]}`);
    const told = await client.ok("secrets", "set", "GREETING=two", "--app", "app", "--restart");
    expect(told).toBe("Set GREETING. Restarted app.\n");
    expect((await ask())[0]).toBe("two");
    over.abort();
    await Promise.all(callers);
    await until("no earlier pod is left", async () => {
      const left = await pods();
      return left.length === 2 && !left.some((each) => before.includes(each));
    });
    expect(await usedMachines(namespace)).toHaveLength(machines);

    const kept = await pods();
    const { code, stderr } = await client.run("secrets", "set", "BREAK=1", "--app", "app", "--restart");
    expect([code, stderr]).toEqual([1, expect.stringContaining("ValueError: told to break")]);
    await until("only the pods that serve are left", async () => (await pods()).length === 2);
    expect(await pods()).toEqual(kept);
    expect((await ask())[0]).toBe("two");
    await on.service.stop();
  });
});
