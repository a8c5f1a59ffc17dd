import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { remoteService, untilCleared } from "../../support/remote/remote-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** Tests of one machine: a call waits for a file that the test leaves in the bundle, wherever an agent has put it. */
const MAIN = `
import os, time
def run(x=1):
    print("x is", x)
    return {"x": x, "pid": os.getpid()}
def variables():
    return dict(os.environ)
def ticks(count):
    for number in range(count):
        yield {"n": number}
def big(size):
    return "x" * size
def size(text):
    return len(text)
def hold(name):
    open("entered-" + name, "w").close()
    while not os.path.exists("go-" + name):
        time.sleep(0.005)
    return os.getpid()
`;

/** Where the only agent has its bundle. */
async function bundleIn(folder: string): Promise<string> {
  const [seat = ""] = await readdir(folder);
  return path.join(folder, seat, "bundle");
}

verifies(
  ["seats.same", "seats.relay"],
  "an app in a seat elsewhere answers, streams and prints as everywhere",
  async () => {
    const { on, place, folder } = await remoteService(databases, { app: { main: MAIN } });
    const first = await on.call("app", { x: 7 });
    expect(first.json).toMatchObject({ result: { x: 7 } });
    expect(place.seats).toHaveLength(1);

    const length = await on.call("app", { text: "y".repeat(3_000_000) }, { functionName: "size" });
    expect(length.json.result).toBe(3_000_000);
    const big = await on.call("app", { size: 3_000_000 }, { functionName: "big" });
    expect(big.json.result).toHaveLength(3_000_000);

    await until("what it printed is in the log", () => on.logs.some(({ text }) => text === "x is 7"));
    expect(on.logs.find(({ text }) => text === "x is 7")?.runId).toBe(first.headers.get("x-request-id"));

    const stream = await openStream(on, "app", { count: 5_000 }, { functionName: "ticks" }).ended();
    expect(stream.messages).toHaveLength(5_000);
    expect(stream.isWhole).toBe(true);

    await on.service.stop();
    await untilCleared(folder);
    expect(place.words).toEqual([]);
    expect(await on.service.store.meta.get("instance_id").catch(() => "closed")).toBe("closed");
  },
);

verifies(
  ["seats.same", "seats.variables"],
  "an async run ends, one is cancelled, and an app sees its own variables alone",
  async () => {
    process.env["MILLRACE_TEST_OF_SERVICE"] = "not for apps";
    const { on, folder } = await remoteService(databases, { app: { main: MAIN } });
    const seen = (await on.call("app", {}, { functionName: "variables" })).json.result;
    delete process.env["MILLRACE_TEST_OF_SERVICE"];
    expect(Object.keys(seen)).toEqual(expect.arrayContaining(["APP_NAME", "PERSISTENT_STORAGE"]));
    expect(Object.values(seen)).not.toContain("not for apps");

    const accepted = await on.call("app", { x: 5 }, { suffix: "?async=true" });
    expect(accepted.status).toBe(202);
    const { run_id: runId } = accepted.json;
    await until("it ends", async () => (await on.ofRun("app", runId)).json.status === "success");

    const bundle = await bundleIn(folder);
    const held = await on.call("app", { name: "a" }, { functionName: "hold", suffix: "?async=true" });
    const heldId = held.json.run_id;
    await until("it runs", async () => (await readdir(bundle)).includes("entered-a"));
    await on.ofRun("app", heldId, "cancel", { method: "POST" });
    await until("it stops", async () => (await on.ofRun("app", heldId)).json.status === "cancelled");
    expect((await on.call("app", { x: 6 })).json.result.x).toBe(6);
  },
);

verifies(
  ["seats.scale"],
  "replicas of a seat are forks of one template there; they come and go with the load",
  async () => {
    const toml = '[scaling]\nmax_replicas = 3\ncooldown = 1\ntemplate_keep = "15m"\n';
    const { on, place, folder } = await remoteService(databases, { app: { main: MAIN, toml } });
    await on.call("app");
    const bundle = await bundleIn(folder);
    const names = ["a", "b", "c"];
    const held = names.map((name) => on.call("app", { name }, { functionName: "hold" }));
    await until("all are held", async () => {
      const found = await readdir(bundle);
      return names.every((name) => found.includes(`entered-${name}`));
    });
    expect(on.ready("app")).toBe(3);
    expect(place.seats).toHaveLength(1);
    for (const name of names) await writeFile(path.join(bundle, `go-${name}`), "");
    const pids = (await Promise.all(held)).map(({ json }) => json.result);
    expect(new Set(pids).size).toBe(3);
    await until("the idle ones have gone", () => on.ready("app") === 0);
    // The app has its template kept: the next start is a fork, in the same seat.
    expect((await on.call("app", { x: 9 })).json.result.x).toBe(9);
    expect(place.seats).toHaveLength(1);
  },
);

verifies(
  "seats.cold",
  "an app that has scaled to zero has no seat left, and the next call opens one",
  async () => {
    const toml = "[scaling]\ncooldown = 0\n";
    const { on, place } = await remoteService(databases, { app: { main: MAIN, toml } });
    expect((await on.call("app", { x: 1 })).json.result.x).toBe(1);
    await place.seats[0]?.exited;
    expect(on.ready("app")).toBe(0);
    expect((await on.call("app", { x: 2 })).json.result.x).toBe(2);
    expect(place.seats).toHaveLength(2);
  },
);
