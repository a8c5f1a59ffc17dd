import { internals } from "../support/test-settings.ts";
import { symlinkSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, describe, expect, onTestFinished } from "vitest";
import { BATCHED, expectBatches } from "../support/batched-app.ts";
import { Command, MILLRACE, scratchDirectory } from "../support/command-line.ts";
import { testDatabases } from "../support/databases.ts";
import { commandsOf, tryCommand } from "../support/document-commands.ts";
import { freePort } from "../support/free-port.ts";
import { KillableService } from "../support/killable-service.ts";
import { isAlive } from "../support/process-tree.ts";
import { RayCluster } from "../support/ray/ray-cluster.ts";
import { rayService } from "../support/ray/ray-service.ts";
import type { TestApp, TestService } from "../support/service.ts";
import { SilentProxy } from "../support/silent-proxy.ts";
import { openStream } from "../support/stream-reader.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const found = await RayCluster.find(process.env);
afterAll(async () => await found?.down());
const databases = testDatabases();

const MAIN = `
import os, time
def run(x=1):
    print("x is", x)
    return x
def ticks(count):
    yield from range(count)
def hold(folder, name):
    open(os.path.join(folder, "%s-%d" % (name, os.getpid())), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.005)
    return os.getpid()
`;
const APP = { main: MAIN };
/** Each replica has an actor of its own. */
const APART = {
  main: MAIN,
  toml: '[deployment]\nfork = "never"\n[scaling]\nmax_replicas = 3\ncooldown = 1\n',
};

describe.skipIf(found === null)("on Ray", () => {
  const ray = found!;

  async function onRay(
    apps: Record<string, TestApp>,
    flags: Record<string, unknown> = {},
  ): Promise<TestService> {
    return await rayService(ray, databases, apps, flags);
  }

  /** The pids of those that hold. */
  async function holding(on: TestService): Promise<number[]> {
    const names = (await readdir(on.directory)).filter((name) => name.startsWith("a-"));
    return names.map((name) => Number(name.slice(2)));
  }

  const hold = (on: TestService, suffix = "") =>
    on.call("app", { folder: on.directory, name: "a" }, { functionName: "hold", suffix });

  verifies("batching.everywhere", "calls share batches and steppers in an actor", async () => {
    await expectBatches(await onRay({ app: BATCHED }), "app");
  });

  verifies(["ray.same", "ray.left"], "an app is called, streamed, cancelled and logged", async () => {
    const on = await onRay({ app: APP });
    const first = await on.call("app", { x: 7 });
    expect(first.json.result).toBe(7);
    await until("what it printed is in the log", () => on.logs.some(({ text }) => text === "x is 7"));
    const stream = await openStream(on, "app", { count: 2_000 }, { functionName: "ticks" }).ended();
    expect(stream.messages).toHaveLength(2_000);

    const { run_id: runId } = (await on.call("app", { x: 5 }, { suffix: "?async=true" })).json;
    await until("the run ends", async () => (await on.ofRun("app", runId)).json.status === "success");
    const { run_id: heldId } = (await hold(on, "?async=true")).json;
    await until("it runs", async () => (await holding(on)).length === 1);
    await on.ofRun("app", heldId, "cancel", { method: "POST" });
    await until("it stops", async () => (await on.ofRun("app", heldId)).json.status === "cancelled");
    expect(await ray.seats()).toHaveLength(1);
    await on.service.stop();
    expect(await ray.supervisors()).toEqual([]);
  });

  verifies("ray.scale", "replicas come and go with the load, each in an actor of its own", async () => {
    const on = await onRay({ app: APART });
    const held = [hold(on), hold(on), hold(on)];
    await until("three run", async () => (await holding(on)).length === 3);
    expect(await ray.seats()).toHaveLength(3);
    await writeFile(path.join(on.directory, "go"), "");
    expect(new Set((await Promise.all(held)).map(({ json }) => json.result)).size).toBe(3);
    await until("all have gone", async () => on.ready("app") === 0 && (await ray.seats()).length === 0);
    expect((await on.call("app", { x: 3 })).json.result).toBe(3);
  });

  verifies("seats.cold", "an app that has scaled to zero has no actor left", async () => {
    const on = await onRay({ app: { main: MAIN, toml: "[scaling]\ncooldown = 1\n" } });
    expect((await on.call("app", { x: 1 })).json.result).toBe(1);
    expect(await ray.seats()).toHaveLength(1);
    await until("the app is cold", () => on.ready("app") === 0);
    await until("its actor has gone", async () => (await ray.seats()).length === 0);
    expect((await on.call("app", { x: 2 })).json.result).toBe(2);
  });

  verifies(
    ["ray.orphan", "ray.left"],
    "after an orderly stop of the last service, actors that were left to the next one end by themselves",
    async () => {
      const on = await onRay({ app: APP }, { keepSeats: true });
      expect((await on.call("app", { x: 1 })).json.result).toBe(1);
      const processes = await ray.seatProcesses();
      await on.service.stop();
      expect(await ray.supervisors()).toEqual([]);
      expect(processes.every(isAlive)).toBe(true);
      await until("its actor and its agent have ended", () => processes.every((pid) => !isAlive(pid)));
      await until("Ray knows", async () => (await ray.seats()).length === 0);
    },
  );

  verifies("ray.secrets", "Ray shows nothing that is worth anything", async () => {
    const on = await onRay({ app: { main: 'import os\ndef run():\n    return os.environ["BUILD_ID"]\n' } });
    const { result } = (await on.call("app")).json;
    expect(result).toBe(on.apps.get("app")?.version.id);
    for (const what of [
      "/api/jobs/",
      "/api/v0/actors?limit=1000&detail=1",
      "/api/v0/tasks?limit=1000&detail=1",
    ]) {
      const shown = JSON.stringify(await ray.read(what));
      const decoded = [...shown.matchAll(/millrace_ray ([\w+/=]+)/g)].map(([, text = ""]) =>
        Buffer.from(text, "base64").toString(),
      );
      for (const text of [shown, ...decoded]) {
        // What an app is given, tickets, and the key of the authority.
        expect(text).not.toContain(String(result));
        expect(text).not.toMatch(/ticket|PRIVATE KEY/);
      }
    }
  });

  verifies("ray.room", "an app that is too large for every node is told so", async () => {
    const toml = "[hardware]\ncpu = 400\n[deployment]\ndeployment_initialization_timeout = 30\n";
    const on = await onRay({ app: { main: MAIN, toml } });
    const { status, json } = await on.call("app");
    expect([status, json.message]).toEqual([
      503,
      expect.stringMatching(/no node of the Ray cluster has 400 CPU \(the most that one has: 2 CPU\)/),
    ]);
  });

  verifies("ray.supervisor", "a supervisor that is killed costs no call", async () => {
    const on = await onRay({ app: APART });
    const held = hold(on);
    await until("it runs", async () => (await holding(on)).length === 1);
    const first = await ray.killSupervisor();
    // It needs an actor, and so another supervisor.
    expect((await on.call("app", { x: 2 })).json.result).toBe(2);
    const [second] = await ray.supervisors();
    expect(second).not.toBe(first);
    await writeFile(path.join(on.directory, "go"), "");
    expect((await held).status).toBe(200);
    await until("the new one ends the actors of the old", async () => (await ray.seats()).length === 0);
  });

  verifies("ray.actor", "an agent or an actor that is killed takes all below it along", async () => {
    const on = await onRay({ app: APP });
    for (const which of [0, 1] as const) {
      const held = hold(on);
      await until("it runs", async () => (await holding(on)).some(isAlive));
      const running = (await holding(on)).filter(isAlive);
      const victims = await ray.seatProcesses();
      process.kill(victims[which], "SIGKILL");
      expect((await held).status).toBe(502);
      await until("all of it has ended", () => [...victims, ...running].every((pid) => !isAlive(pid)));
      expect((await on.call("app", { x: which })).json.result).toBe(which);
    }
  });

  verifies("ray.away", "what runs is called while Ray's API cannot be reached", async () => {
    const proxy = await SilentProxy.openTo(Number(new URL(ray.address).port));
    const rayAddress = proxy.url.replace("https:", "http:");
    const on = await onRay({ app: APP, other: APP }, { rayAddress });
    expect((await on.call("app", { x: 1 })).json.result).toBe(1);
    proxy.reset();
    await ray.killSupervisor();
    expect((await on.call("app", { x: 2 })).json.result).toBe(2);
    const waiting = on.call("other", { x: 3 });
    proxy.speak();
    expect((await waiting).json.result).toBe(3);
    expect((await on.call("app", { x: 4 })).json.result).toBe(4);
  });

  verifies("ray.orphan", "nothing outlives a service that was killed", async () => {
    const database = await databases.fresh("postgres");
    const env = { MILLRACE_ENGINE: "ray", MILLRACE_RAY_ADDRESS: ray.address };
    const service = await KillableService.deploy(database, APP, env, false);
    await service.start();
    expect((await service.post({ x: 4 })).status).toBe(200);
    const processes = await ray.seatProcesses();
    await service.kill();
    await until("its actor and its agent have ended", () => processes.every((pid) => !isAlive(pid)));
    await until("Ray knows", async () => (await ray.seats()).length === 0);
    await until("its supervisor has", async () => (await ray.supervisors()).length === 0);
  });

  verifies("ray.adopted", "the next service goes on in the actor of one that was killed", async () => {
    const database = await databases.fresh("postgres");
    const env = {
      MILLRACE_ENGINE: "ray",
      MILLRACE_RAY_ADDRESS: ray.address,
      MILLRACE_SEAT_URL: `https://127.0.0.1:${await freePort()}`,
    };
    const main = "import os\nBORN = os.getpid()\ndef run():\n    return BORN\n";
    const service = await KillableService.deploy(database, { main }, env, false);
    await service.start();
    const before = (await service.post({})).json.result as number;
    await service.kill();
    await service.start();
    expect((await service.post({})).json.result).toBe(before);
    expect(await ray.seats()).toHaveLength(1);
    await service.stop();
    await until("it has ended", () => !isAlive(before));
    await until("Ray knows", async () => (await ray.seats()).length === 0);
    await until("no supervisor is left", async () => (await ray.supervisors()).length === 0);
  });

  verifies("docs.blocks", "the commands of docs/ray.md lead to a call", async () => {
    const commands = commandsOf("docs/ray.md");
    expect(commands).toEqual([
      "millrace doctor",
      "millrace serve",
      "millrace init hello",
      "millrace deploy hello --yes",
      "millrace call hello name=Ada",
    ]);
    const [doctor = "", , init = "", deploy = "", call = ""] = commands;
    const cwd = scratchDirectory();
    symlinkSync(MILLRACE, path.join(cwd, "millrace"));
    const { databaseUrl } = await databases.fresh("postgres");
    const env = {
      PATH: `${cwd}:${process.env["PATH"]}`,
      MILLRACE_DATABASE_URL: databaseUrl ?? "",
      MILLRACE_ENGINE: "ray",
      MILLRACE_RAY_ADDRESS: ray.address,
      MILLRACE_DATA_DIR: path.join(cwd, ".millrace"),
      MILLRACE_ISOLATION: "none",
      MILLRACE_CONTAINER_ENGINE: "none",
      ...internals({ keepSeats: false }),
    };
    expect(await tryCommand(doctor, { cwd, env })).toMatch(/^ok +ray .*: Ray \d/m);
    const service = new Command(MILLRACE, ["serve"], { cwd, env });
    onTestFinished(async () => {
      service.child.kill("SIGTERM");
      await service.exited;
    });
    await service.printed(/the supervisor on Ray is up/);
    await tryCommand(init, { cwd, env });
    await tryCommand(deploy, { cwd, env });
    expect(await tryCommand(call, { cwd, env })).toContain("Hello, Ada!");
  });

  // The last one: the cluster has one node less from then on.
  if (ray.isOwn)
    verifies("ray.node", "when a node dies, another takes its place", async () => {
      const on = await onRay({ app: { ...APART, toml: `${APART.toml}[hardware]\ncpu = 1\n` } });
      const held = [hold(on), hold(on), hold(on)];
      await until("three run", async () => (await holding(on)).length === 3);
      ray.killNode();
      const first = await Promise.race(held);
      expect(first.status).toBe(502);
      await writeFile(path.join(on.directory, "go"), "");
      const statuses = (await Promise.all(held)).map(({ status }) => status);
      expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0);
      expect((await on.call("app", { x: 3 })).json.result).toBe(3);
    });
});
