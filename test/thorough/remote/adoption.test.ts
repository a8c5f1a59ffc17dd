import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { freePort } from "../../support/free-port.ts";
import { isAlive } from "../../support/process-tree.ts";
import { type SeatService, SeatSite } from "../../support/remote/seat-site.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
/** Who has imported it: the template, which forks replicas. */
const MAIN = `
import os, time
BORN = os.getpid()
print("imported")
def run():
    return [BORN, os.getpid()]
def wait(seconds):
    time.sleep(seconds)
    return BORN
def hold(folder):
    open(os.path.join(folder, "in-%d" % os.getpid()), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.005)
    return os.getpid()
`;
const APP = { main: MAIN, toml: "[scaling]\nmax_replicas = 2\n" };

type Born = readonly [template: number, replica: number];

async function bornOf(service: SeatService): Promise<Born> {
  const { status, json } = await service.call();
  expect([status, json.result]).toEqual([200, [expect.any(Number), expect.any(Number)]]);
  return json.result as Born;
}

/** Whether the next service goes on in the seat of the one before. */
async function goesOn(before: Born, after: SeatService): Promise<void> {
  const [template, replica] = await bornOf(after);
  expect(template).toBe(before[0]);
  expect(replica).not.toBe(before[1]);
  // What it had forked for the one before has ended.
  expect(isAlive(before[1])).toBe(false);
  const { begun, adopted } = await after.agents();
  expect([begun, adopted]).toEqual([[], [expect.any(Number)]]);
}

verifies(
  "seats.restart",
  "kill -9 of the service: the next one goes on in its seat, again and again",
  async () => {
    const site = await SeatSite.make(databases, APP);
    let service = await site.start(true);
    const first = await bornOf(service);
    const [agent = 0] = (await service.agents()).begun;
    for (let last = first, n = 0; n < 2; n += 1) {
      await service.kill();
      service = await site.start(false);
      await goesOn(last, service);
      last = await bornOf(service);
      expect((await service.agents()).adopted).toEqual([agent]);
    }
    // It is as good as one of its own: it forks more, and ends with the service.
    const held = await Promise.all([service.call("wait", { seconds: 0.2 }), service.call()]);
    expect(held.map(({ status }) => status)).toEqual([200, 200]);
    await service.stop();
    await until("its agent has ended", () => !isAlive(agent));
    expect(isAlive(first[0])).toBe(false);
  },
);

verifies(
  "seats.restart",
  "calls under way are lost with the service; async runs are tried again, and end once",
  async () => {
    const site = await SeatSite.make(databases, { ...APP, toml: "[scaling]\nmax_replicas = 4\n" });
    const service = await site.start(true);
    await bornOf(service);
    const { folder } = site;
    const runs: string[] = [];
    for (let n = 0; n < 3; n += 1) {
      const { json } = await service.call("hold", { folder }, "?async=true");
      runs.push(json.run_id as string);
    }
    const lost = service.call("hold", { folder }).catch(() => null);
    const executing = async (): Promise<number[]> =>
      (await readdir(folder)).flatMap((name) => (name.startsWith("in-") ? [Number(name.slice(3))] : []));
    await until("all of them are executed", async () => (await executing()).length === 4);
    const before = await executing();
    await service.kill();
    await lost;
    const after = await site.start(false);
    await until("those that were accepted are executed again", async () => (await executing()).length === 7);
    await writeFile(path.join(folder, "go"), "");
    for (const id of runs) {
      await until(`the run ${id} has ended`, async () => {
        const { json } = await after.call(`runs/${id}`, null);
        return json.status === "success" && !before.includes(json.result as number);
      });
    }
    expect(before.some(isAlive)).toBe(false);
    expect(await executing()).toHaveLength(7);
    const { begun, adopted } = await after.agents();
    expect([begun.length, adopted.length]).toEqual([0, 1]);
    await after.stop();
  },
);

verifies("seats.restart", "an app's own server goes on", async () => {
  const port = await freePort();
  const runtime = `entrypoint = "python main.py --port ${port}"\nport = ${port}\nreadycheck_endpoint = "/readyz"`;
  const site = await SeatSite.make(databases, serverApp({ runtime }));
  const service = await site.start(true);
  const { pid } = (await service.call("echo", { x: 1 })).json;
  await service.kill();
  const after = await site.start(false);
  expect((await after.call("echo", { x: 2 })).json).toMatchObject({ pid, body: '{"x":2}' });
  expect((await after.agents()).begun).toEqual([]);
  await after.stop();
  await until("it has ended", () => !isAlive(pid as number));
});

verifies("seats.alone", "a seat with other secrets, or that nobody calls, ends after the grace", async () => {
  const site = await SeatSite.make(databases, APP, 8_000);
  const service = await site.start(true);
  const [template] = await bornOf(service);
  const [agent = 0] = (await service.agents()).begun;
  await service.kill();
  const after = await site.start(false);
  const { status } = await after.manage("PATCH", "/v2/projects/PROJECT/secrets", { KEY: "new" });
  expect(status).toBe(200);
  const [next] = await bornOf(after);
  expect(next).not.toBe(template);
  expect((await after.agents()).adopted).toEqual([]);
  await until("the first one has ended", () => !isAlive(agent) && !isAlive(template));
  await after.stop();
});

verifies(
  "seats.single",
  "a template that may not fork ends with its service, and is not waited for",
  async () => {
    const main = `${MAIN}import threading\nthreading.Thread(target=lambda: time.sleep(3600), daemon=True).start()\n`;
    const site = await SeatSite.make(databases, { main });
    const service = await site.start(true);
    const [template, replica] = await bornOf(service);
    expect(replica).toBe(template);
    const [agent = 0] = (await service.agents()).begun;
    await service.kill();
    const after = await site.start(false);
    expect((await bornOf(after))[0]).not.toBe(template);
    expect((await after.agents()).begun).toHaveLength(1);
    await until("the first one has ended", () => !isAlive(agent) && !isAlive(template));
    await after.stop();
  },
);

verifies("seats.restart", "a seat whose agent died with the service is replaced", async () => {
  const site = await SeatSite.make(databases, APP);
  const service = await site.start(true);
  const [template] = await bornOf(service);
  const [agent = 0] = (await service.agents()).begun;
  await service.kill();
  process.kill(agent, "SIGKILL");
  const after = await site.start(false);
  expect((await bornOf(after))[0]).not.toBe(template);
  // One that was adopted dies too.
  await after.kill();
  const third = await site.start(false);
  await bornOf(third);
  const [adopted = 0] = (await third.agents()).adopted;
  process.kill(adopted, "SIGKILL");
  await until("another answers", async () => (await third.call()).status === 200);
  expect((await third.agents()).begun).toHaveLength(1);
  await third.stop();
});

verifies(
  "seats.service",
  "the next service has another address: the one that lasts leads there",
  async () => {
    const site = await SeatSite.make(databases, APP);
    const lasting = await freePort();
    const flags = { seatServiceUrl: `https://127.0.0.1:${lasting}` };
    const service = await site.start(true, flags);
    const before = await bornOf(service);
    await service.kill();
    const after = await site.start(false, { ...flags, seatUrl: `https://127.0.0.1:${lasting}` });
    await goesOn(before, after);
    await after.stop();
  },
);

verifies("seats.left", "a service that stops as the last leaves its seats to the next", async () => {
  const site = await SeatSite.make(databases, APP);
  const service = await site.start(true, { keepSeats: true });
  const before = await bornOf(service);
  await service.stop();
  expect(isAlive(before[0])).toBe(true);
  const after = await site.start(false);
  await goesOn(before, after);
  await after.stop();
  await until("it has ended", () => !isAlive(before[0]));
});

verifies("seats.moved", "when a node dies, the node that takes its app goes on in its seat", async () => {
  const site = await SeatSite.make(databases, APP);
  const first = await site.start(true);
  const second = await site.startBeside();
  const { owner, other } = await site.sides(first, second);
  const before = await bornOf(owner);
  const [agent] = (await owner.agents()).begun;
  await owner.kill();
  await until("the other one answers", async () => (await other.call()).status === 200);
  expect((await bornOf(other))[0]).toBe(before[0]);
  expect(await other.agents()).toEqual({ begun: [], adopted: [agent] });
  await other.stop();
});

verifies(
  "seats.taken",
  "a service that was frozen finds its seat taken over, and ends nothing of it",
  async () => {
    const site = await SeatSite.make(databases, APP);
    const first = await site.start(true);
    const second = await site.startBeside();
    const { owner, other } = await site.sides(first, second);
    const [template] = await bornOf(owner);
    const [agent = 0] = (await owner.agents()).begun;
    owner.setFrozen(true);
    await until("the other one answers", async () => (await other.call()).status === 200);
    expect(await other.agents()).toEqual({ begun: [], adopted: [agent] });
    owner.setFrozen(false);
    // It gives up everything that it had.
    await owner.stop();
    expect(isAlive(agent)).toBe(true);
    const [after, replica] = await bornOf(other);
    expect([after, isAlive(replica)]).toEqual([template, true]);
    await other.stop();
  },
);
