import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const MAIN = `
import os
import time

if os.environ.get("BREAK"):
    raise ValueError("told to break")


def run(seconds: float = 0):
    time.sleep(seconds)
    return [os.environ.get("GREETING", "none"), os.getpid()]
`;
const TOML = "[scaling]\nmin_replicas = 2\nmax_replicas = 2\n";

const shared = sharedService({
  app: { main: MAIN, toml: TOML },
  idle: { main: MAIN },
  last: { main: "import os\ndef run():\n    return [os.environ.get('GREETING', 'none'), os.getpid()]\n" },
});

async function ask(name: string, fields: object = {}): Promise<[string, number]> {
  const { status, json } = await shared().call(name, fields);
  expect(status).toBe(200);
  return json.result as [string, number];
}

verifies("cli.restart", "restart replaces every replica, and no call fails", async () => {
  const client = new Client(shared());
  const pool = shared().apps.get("app")?.pool;
  await until("both are ready", () => pool?.readyCount === 2);
  const before = Array.from(pool?.replicas ?? [], ({ pid }) => pid);
  // One call is under way all the time, and others come all the time.
  const long = ask("app", { seconds: 1 });
  const over = new AbortController();
  const callers = Array.from({ length: 2 }, async () => {
    while (!over.signal.aborted) await ask("app");
  });
  expect(await client.ok("restart", "app")).toBe("app is restarted.\n");
  const after = await ask("app");
  over.abort();
  await Promise.all(callers);
  expect(before).toContain((await long)[1]);
  expect(before).not.toContain(after[1]);
});

verifies("cli.restart", "secrets set --restart has replicas that run see the new value", async () => {
  const client = new Client(shared());
  await ask("app");
  expect(await client.ok("secrets", "set", "GREETING=one", "--app", "app")).toMatch(
    /^Set GREETING\. Replicas that start from now on see the change; millrace restart app restarts those that run\.\n$/,
  );
  expect((await ask("app"))[0]).toBe("none");
  const told = await client.ok("secrets", "set", "GREETING=two", "--app", "app", "--restart");
  expect(told).toBe("Set GREETING. Restarted app.\n");
  expect((await ask("app"))[0]).toBe("two");
  // Of a whole project: each app that has replicas.
  expect(await client.json("secrets", "set", "OTHER=1", "--restart")).toEqual({
    set: ["OTHER"],
    restarted: ["app"],
  });
  expect(await client.ok("secrets", "unset", "GREETING", "--app", "app", "--restart")).toBe(
    "Removed GREETING. Restarted app.\n",
  );
  expect((await ask("app"))[0]).toBe("none");
});

verifies(
  "cli.restart",
  "an app that no longer starts keeps its replicas, and the command says why",
  async () => {
    const client = new Client(shared());
    const [, pid] = await ask("app");
    const { code, stderr } = await client.run("secrets", "set", "BREAK=1", "--app", "app", "--restart");
    expect([code, stderr]).toEqual([1, expect.stringContaining("ValueError: told to break")]);
    expect(stderr).toContain("BREAK set; app could not be restarted: ");
    expect((await ask("app"))[1]).toBe(pid);
    await client.ok("secrets", "unset", "BREAK", "--app", "app");
    // Of a whole project: the other apps are restarted all the same, and one without a version is left out.
    mkdirSync(path.join(client.cwd, "never"));
    writeFileSync(path.join(client.cwd, "never", "main.py"), "raise ValueError\n");
    expect(await client.run("deploy", "never", "--yes")).toMatchObject({ code: 1 });
    await ask("last");
    const all = await client.run("secrets", "set", "BREAK=1", "GREETING=three", "--restart");
    expect([all.code, all.stderr]).toEqual([
      1,
      expect.stringContaining("BREAK, GREETING set; restarted last; app could not be restarted: ValueError"),
    ]);
    expect((await ask("last"))[0]).toBe("three");
    expect((await ask("app"))[1]).toBe(pid);
    await client.ok("secrets", "unset", "BREAK", "GREETING");
    expect(await client.run("restart", "nosuch")).toMatchObject({ code: 1 });
  },
);
