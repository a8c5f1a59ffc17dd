import { copyFile, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { LocalPlace } from "../../support/remote/local-place.ts";
import { remoteService, seatFolder } from "../../support/remote/remote-service.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const APP = {
  main: `
import os, time
def run(x=1):
    return os.getpid()
def hold(folder):
    open(os.path.join(folder, "in"), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.005)
    return os.getpid()
`,
  toml: "[scaling]\nmin_replicas = 1\nmax_replicas = 1\n",
};

verifies(
  "seats.leaving",
  "a seat that gets SIGTERM goes when another is ready, and its call ends first",
  async () => {
    const { on, place } = await remoteService(databases, { app: APP });
    const before = (await on.call("app")).json.result;
    const held = on.call("app", { folder: on.directory }, { functionName: "hold" });
    await until("it runs", async () => (await readdir(on.directory)).includes("in"));
    const [first] = place.seats;
    process.kill(first?.pid ?? 0, "SIGTERM");
    await until("another seat is there", () => place.seats.length === 2);
    // It has the one slot there is now; the old one only finishes.
    expect((await on.call("app")).json.result).not.toBe(before);
    await writeFile(path.join(on.directory, "go"), "");
    expect((await held).json.result).toBe(before);
    expect((await first?.exited)?.detail).toBe("exit code 0");
  },
);

verifies(
  "seats.hung",
  "a replica elsewhere that was stopped is found by its agent, and another takes its calls",
  async () => {
    const { on, place } = await remoteService(databases, { app: APP });
    const stopped = (await on.call("app")).json.result;
    process.kill(stopped, "SIGSTOP");
    const next = (await on.call("app")).json.result;
    expect(next).not.toBe(stopped);
    expect(place.seats).toHaveLength(1);
  },
);

verifies(
  "seats.nodes",
  "two nodes have seats side by side, and an app of one is called through the other",
  async () => {
    const shared = await mkdtemp(path.join(tmpdir(), "millrace-shared-"));
    const dataDir = await mkdtemp(path.join(tmpdir(), "millrace-data-"));
    onTestFinished(async () => {
      for (const folder of [shared, dataDir]) await rm(folder, { recursive: true, force: true });
    });
    const { databaseUrl } = await databases.fresh("postgres");
    const flags = { databaseUrl, blobs: shared };
    const places = [
      new LocalPlace({ folder: await seatFolder() }),
      new LocalPlace({ folder: await seatFolder() }),
    ];
    const [here, there] = places as [LocalPlace, LocalPlace];
    const owner = await testService({ app: APP }, flags, { seats: { place: here } });
    await copyFile(path.join(owner.settings.dataDir, "master.key"), path.join(dataDir, "master.key"));
    const other = await testService({}, { ...flags, dataDir }, { seats: { place: there } });
    const living = async () => (await owner.service.store.nodes.list()).living;
    await until("both are known", async () => (await living()).length === 2);
    const addresses = (await living()).flatMap(({ details }) => details.seatAddress ?? []);
    expect(new Set(addresses).size).toBe(2);
    const answer = await other.call("app", {}, { token: owner.service.owner.token });
    expect(answer.status).toBe(200);
  },
);
