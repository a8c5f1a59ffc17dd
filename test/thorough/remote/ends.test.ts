import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { freePort } from "../../support/free-port.ts";
import { processesIn } from "../../support/leak-check.ts";
import { isAlive } from "../../support/process-tree.ts";
import { remoteService, type RemoteService } from "../../support/remote/remote-service.ts";
import { SilentProxy } from "../../support/silent-proxy.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const APP = {
  main: `
import os, time
def run(x=1):
    return x
def hold(folder, name):
    open(os.path.join(folder, "%s-%d" % (name, os.getpid())), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.005)
    return os.getpid()
`,
};

/** A service that its seats reach through a proxy. */
async function behindProxy(graceMs: number): Promise<RemoteService & { readonly proxy: SilentProxy }> {
  const seatPort = await freePort();
  const proxy = await SilentProxy.openTo(seatPort);
  const flags = { seatUrl: proxy.url, seatPort };
  return { ...(await remoteService(databases, { app: APP }, { graceMs, flags })), proxy };
}

/** The pids of those that hold, in order of their coming. */
async function holding(folder: string, name: string): Promise<number[]> {
  const found = (await readdir(folder)).filter((each) => each.startsWith(`${name}-`));
  return found.map((each) => Number(each.slice(name.length + 1)));
}

verifies("seats.killed", "kill -9 of an agent costs what ran in it, and nothing after that", async () => {
  const { on, place, folder } = await remoteService(databases, { app: APP });
  const held = on.call("app", { folder: on.directory, name: "a" }, { functionName: "hold" });
  await until("it runs", async () => (await holding(on.directory, "a")).length === 1);
  const [first] = place.seats;
  process.kill(first?.pid ?? 0, "SIGKILL");
  expect((await held).status).toBe(502);
  await until("nothing of it is left", () => processesIn(folder).every(({ pid }) => pid !== first?.pid));
  const [pid = 0] = await holding(on.directory, "a");
  await until("its replica has ended too", () => !isAlive(pid));
  expect((await on.call("app", { x: 2 })).json.result).toBe(2);
});

verifies("seats.cut", "when every connection is cut, the next call has a seat again", async () => {
  const { on, place, proxy } = await behindProxy(30_000);
  expect((await on.call("app", { x: 1 })).json.result).toBe(1);
  const held = on.call("app", { folder: on.directory, name: "a" }, { functionName: "hold" });
  await until("a call runs", async () => (await holding(on.directory, "a")).length === 1);
  proxy.reset();
  proxy.speak();
  // It may have ended, and is not tried again.
  expect((await held).status).toBe(502);
  expect(await holding(on.directory, "a")).toHaveLength(1);
  expect((await on.call("app", { x: 2 })).json.result).toBe(2);
  for (const seat of place.seats.slice(0, -1)) await seat.exited;
});

/** A seat with a call, which has noticed that its service is away. */
async function stalledInACall() {
  const behind = await behindProxy(60_000);
  const { on, proxy } = behind;
  const held = on.call("app", { folder: on.directory, name: "a" }, { functionName: "hold" });
  await until("it runs", async () => (await holding(on.directory, "a")).length === 1);
  const { count } = proxy;
  proxy.stall();
  // Its old connection is closed on both sides after a silence; this is the next.
  await until("the agent looks for its service", () => proxy.count !== count);
  return { ...behind, held };
}

verifies(
  "seats.back",
  "a way that is blocked for a while costs nothing: the seat comes back, and its call ends",
  async () => {
    const { on, place, proxy, held } = await stalledInACall();
    proxy.letThrough();
    await writeFile(path.join(on.directory, "go"), "");
    expect((await held).json.result).toEqual((await holding(on.directory, "a"))[0]);
    expect((await on.call("app", { x: 2 })).json.result).toBe(2);
    expect(place.seats).toHaveLength(1);
  },
);

verifies(
  "seats.leaving",
  "a seat that is to leave while its service is away says so later, and its call ends first",
  async () => {
    const { on, place, proxy, held } = await stalledInACall();
    const [first] = place.seats;
    process.kill(first?.pid ?? 0, "SIGTERM");
    proxy.letThrough();
    await until("another seat is there", () => place.seats.length === 2);
    await writeFile(path.join(on.directory, "go"), "");
    expect((await held).json.result).toEqual((await holding(on.directory, "a"))[0]);
    await first?.exited;
  },
);

verifies(
  "seats.names",
  "a service is found by its name, whichever of its addresses it listens on",
  async () => {
    const { on, place } = await remoteService(databases, { app: APP });
    // Most machines have two addresses by that name, and the service has one.
    place.change = (order) => ({
      ...order,
      addresses: order.addresses.map((each) => each.replace("127.0.0.1", "localhost")),
    });
    expect((await on.call("app", { x: 3 })).json.result).toBe(3);
    expect(place.seats[0]?.order.addresses[0]).toMatch(/^localhost:/);
  },
);

verifies(
  "seats.alone",
  "a seat that finds no service ends itself after its grace, with all that it started",
  async () => {
    const { on, place, proxy, folder } = await behindProxy(3_000);
    const held = on.call("app", { folder: on.directory, name: "a" }, { functionName: "hold" });
    await until("it runs", async () => (await holding(on.directory, "a")).length === 1);
    const [seat] = place.seats;
    place.isDeaf = true;
    proxy.reset();
    expect((await held).status).toBe(502);
    expect((await seat?.exited)?.detail).toBe("exit code 0");
    expect(place.words.join("")).toContain("no service was found");
    const [pid = 0] = await holding(on.directory, "a");
    expect(isAlive(pid)).toBe(false);
    proxy.speak();
    place.isDeaf = false;
    expect(processesIn(folder).map((each) => each.pid)).not.toContain(pid);
  },
);

verifies(
  "seats.fenced",
  "a seat that was given up is told to end when it comes back, and what it has to say is not heard",
  async () => {
    const { on, place } = await remoteService(databases, { app: APP }, { graceMs: 3_000 });
    const run = await on.call(
      "app",
      { folder: on.directory, name: "a" },
      { functionName: "hold", suffix: "?async=true" },
    );
    const { run_id: runId } = run.json;
    await until("it runs", async () => (await holding(on.directory, "a")).length === 1);
    const [lost] = await holding(on.directory, "a");
    const [first] = place.seats;
    place.isDeaf = true;
    // The agent alone: what it keeps works on, and nobody hears of it.
    process.kill(first?.pid ?? 0, "SIGSTOP");
    await until(
      "the run has been given to another",
      async () => (await holding(on.directory, "a")).length === 2,
    );
    await writeFile(path.join(on.directory, "go"), "");
    await until("it has ended", async () => (await on.ofRun("app", runId)).json.status === "success");
    const record = (await on.ofRun("app", runId)).json;
    expect(record.result).not.toBe(lost);
    process.kill(first?.pid ?? 0, "SIGCONT");
    expect((await first?.exited)?.detail).toBe("exit code 3");
    expect(place.words.join("")).toContain("it has been replaced");
    expect((await on.ofRun("app", runId)).json).toEqual(record);
    expect((await on.call("app", { x: 2 })).json.result).toBe(2);
    place.isDeaf = false;
  },
);
