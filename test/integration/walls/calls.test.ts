import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { parentOf } from "../../support/process-tree.ts";
import { type TestService, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { outerKeeperOf, onlyUpTo, requireOffered } from "../../support/walls/walled.ts";
import { TRIED_LEVELS } from "../../support/walls/tried-levels.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os

IMPORTED_BY = os.getpid()

def add(a, b):
    return a + b

def count(n):
    for i in range(n):
        yield str(i)

def who():
    return {"pid": os.getpid(), "imported_by": IMPORTED_BY, "home": os.environ["HOME"], "tmp": os.environ["TMPDIR"]}

def keep(text):
    for name in ("HOME", "PERSISTENT_STORAGE"):
        with open(os.path.join(os.environ[name], "kept"), "w") as file:
            file.write(text)
    return sorted(os.listdir(os.environ["PERSISTENT_STORAGE"]))

def literal():
    with open("/persistent-storage/kept") as kept, open("/cortex/main.py") as code:
        return [kept.read(), "def literal" in code.read(), sorted(os.listdir("/proc"))[0]]

def litter(count):
    for each in range(count):
        os.mkdir(os.path.join(os.environ["HOME"], str(each)))

def die():
    os._exit(3)
`;

const replicaOf = (service: TestService) => [...(service.apps.get("app")?.pool.replicas ?? [])][0]!;

for (const level of TRIED_LEVELS) {
  verifies(
    "walls.calls",
    `on ${level} every kind of call works, and replicas are forks that the host's ids name`,
    async (context) => {
      await requireOffered(level, context);
      const service = await testService({ app: { main: MAIN } }, await onlyUpTo(level));
      const result = async (functionName: string, body: object = {}) => {
        const { status, json } = await service.call("app", body, { functionName });
        expect([functionName, status]).toEqual([functionName, 200]);
        return json.result;
      };
      expect(await result("add", { a: 1, b: 2 })).toBe(3);
      const streamed = await service.call("app", { n: 3 }, { functionName: "count" });
      expect([...streamed.text.matchAll(/^data: (\d)$/gm)].map(([, value]) => value)).toEqual([
        "0",
        "1",
        "2",
      ]);
      const accepted = await service.call(
        "app",
        { a: 3, b: 4 },
        { functionName: "add", suffix: "?async=true" },
      );
      expect(accepted.status).toBe(202);
      const ended = async () => (await service.ofRun("app", accepted.json.run_id)).json;
      await until("the run ends", async () => (await ended()).status === "success");
      const first = await result("who");
      expect(first.pid).not.toBe(first.imported_by);
      const replica = replicaOf(service);
      const outer = outerKeeperOf(replica.pid, process.pid);
      expect(parentOf(outer)).toBe(process.pid);
      expect((await replica.usage())?.residentBytes).toBeGreaterThan(1_000_000);
      // Another replica is another fork of the same template, behind the same walls.
      expect((await service.call("app", {}, { functionName: "die" })).status).toBe(502);
      const second = await result("who");
      expect([second.imported_by, second.pid === first.pid]).toEqual([first.imported_by, false]);
      expect(outerKeeperOf(replicaOf(service).pid, process.pid)).toBe(outer);
    },
  );
}

for (const level of TRIED_LEVELS) {
  verifies(
    "walls.scratch",
    `on ${level} a template's scratch folder is its home, and goes with it`,
    async (context) => {
      await requireOffered(level, context);
      const service = await testService({ app: { main: MAIN } }, await onlyUpTo(level));
      expect((await service.call("app", { text: "mine" }, { functionName: "keep" })).status).toBe(200);
      const { home, tmp } = (await service.call("app", {}, { functionName: "who" })).json.result;
      const all = path.join(service.settings.dataDir, "scratch");
      expect([path.dirname(home), tmp]).toEqual([all, home]);
      expect(readdirSync(all)).toEqual([path.basename(home)]);
      expect(readFileSync(path.join(home, "kept"), "utf8")).toBe("mine");
      process.kill(outerKeeperOf(replicaOf(service).pid, process.pid), "SIGKILL");
      await until("it is removed", () => !existsSync(home));
    },
  );
}

verifies("walls.scratch", "an orderly stop leaves no scratch folder", async (context) => {
  await requireOffered("process", context);
  const service = await testService({ app: { main: MAIN } }, { isolation: "auto" });
  // Their removal takes longer than the rest of the stop, and on a busy machine not as long as a stop waits for it.
  expect((await service.call("app", { count: 400 }, { functionName: "litter" })).status).toBe(200);
  await service.service.stop();
  expect(readdirSync(path.join(service.settings.dataDir, "scratch"))).toEqual([]);
});

verifies(
  "app.storage.path",
  "on userns storage and code are where other services have them, and processes are the app's own",
  async (context) => {
    await requireOffered("userns", context);
    const service = await testService({ app: { main: MAIN } }, { isolation: "userns" });
    await service.call("app", { text: "mine" }, { functionName: "keep" });
    const { status, json } = await service.call("app", {}, { functionName: "literal" });
    expect([status, json.result]).toEqual([200, ["mine", true, "1"]]);
  },
);
