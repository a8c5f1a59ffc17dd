import { describe, expect, test } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { logSite } from "./site.ts";

const databases = testDatabases();

const MAIN = `
import asyncio, logging, os, subprocess, sys, threading, time

print("at import")

def say(words):
    for word in words:
        print(word)
    print("to stderr", file=sys.stderr)

def fail(text):
    print("before")
    raise ValueError(text)

def threads(name, count, with_context):
    import contextvars
    def work(number):
        for i in range(count):
            print("%s thread %d line %d" % (name, number, i))
    def thread(number):
        if with_context:
            return threading.Thread(target=contextvars.copy_context().run, args=(work, number))
        return threading.Thread(target=work, args=(number,))
    workers = [thread(number) for number in range(4)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()

def child(name):
    subprocess.run([sys.executable, "-c", "print('%s from a child')" % name], check=True)

def flood(lines):
    for number in range(lines):
        print("flood", number)

def echo(x):
    return x

def long():
    print("y" * 200_000)
`;
const ASYNC = `
import asyncio
async def run(name, count):
    for i in range(count):
        print("%s line %d" % (name, i))
        await asyncio.sleep(0)
`;
const SERIAL = "[scaling]\nmax_replicas = 1\n";

describe.each(triedKinds("sqlite"))("lines of apps on %s", (kind) => {
  const site = logSite(
    {
      app: { main: MAIN, toml: SERIAL },
      flooded: { main: MAIN, toml: SERIAL },
      looped: { main: ASYNC, toml: `${SERIAL}replica_concurrency = 16\n` },
    },
    { database: () => databases.fresh(kind) },
  );
  const call = async (functionName: string, body: object, app = "app"): Promise<string> =>
    (await site().call(app, body, { functionName })).headers.get("x-request-id") ?? "";
  const ofRun = async (runId: string, app = "app") =>
    await site().lines(app, `?direction=forward&pageSize=1000&runId=${runId}`);

  verifies("logs.shape", "a line has exactly the contract's members", async () => {
    const runId = await call("say", { words: ["shaped"] });
    await until("both lines are here", async () => (await ofRun(runId)).length === 2);
    const { json } = await site().get("app", `?runId=${runId}&direction=forward`);
    expect(Object.keys(json).toSorted()).toEqual(["hasMore", "logs", "nextPageToken"]);
    const [line, error] = json.logs;
    expect(line).toEqual({
      appId: site().appId("app"),
      projectId: site().service.owner.projectId,
      runId,
      containerId: expect.stringMatching(/^r-/),
      containerName: line.containerId,
      logId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      lineNumber: expect.any(Number),
      logLine: "shaped",
      stream: "stdout",
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/),
    });
    expect(error).toMatchObject({ logLine: "to stderr", stream: "stderr" });
    // Stable: asked again, the same.
    expect((await site().get("app", `?runId=${runId}&direction=forward`)).json).toEqual(json);
    expect(new Set((await site().lines("app")).map(({ logId }) => logId)).size).toBe(
      (await site().lines("app")).length,
    );
  });

  verifies(
    "logs.get",
    "lines are found by container, dates, text, stream and run, newest first",
    async () => {
      const runId = await call("say", { words: ["alpha one", "ALPHA two", "beta"] });
      await until("all are here", async () => (await ofRun(runId)).length === 4);
      const said = (await ofRun(runId)).filter(({ stream }) => stream === "stdout");
      const texts = async (query: string) => (await site().lines("app", query)).map(({ logLine }) => logLine);
      expect(await texts(`?runId=${runId}&stream=stdout`)).toEqual(["beta", "ALPHA two", "alpha one"]);
      expect(await texts(`?runId=${runId}&search=alpha`)).toEqual(["ALPHA two", "alpha one"]);
      expect(await texts(`?search=Alpha%20TWO&direction=forward`)).toEqual(["ALPHA two"]);
      expect(await texts(`?runId=${runId}&stream=stderr`)).toEqual(["to stderr"]);
      const [first, , last] = said;
      const between = `afterDate=${first!.timestamp}&beforeDate=${last!.timestamp}`;
      expect(await texts(`?runId=${runId}&stream=stdout&${between}`)).toEqual(["ALPHA two"]);
      expect(await texts(`?search=alpha&container=${first!.containerId}`)).toHaveLength(2);
      expect(await texts(`?search=alpha&container=r-other`)).toEqual([]);
      expect((await texts("?direction=forward&pageSize=1"))[0]).toBe("at import");
    },
  );

  verifies("logs.token", "a page token goes on where its page ended, and stays valid", async () => {
    const words = Array.from({ length: 25 }, (_, i) => `word ${i}`);
    const runId = await call("say", { words });
    await until("all are here", async () => (await ofRun(runId)).length === 26);
    const seen: string[] = [];
    let token: string | null = "";
    let first: string | null = null;
    do {
      const { json } = await site().get(
        "app",
        `?runId=${runId}&stream=stdout&pageSize=10&nextToken=${token}`,
      );
      seen.push(...json.logs.map(({ logLine }: { logLine: string }) => logLine));
      expect(json.hasMore).toBe(json.nextPageToken !== null);
      token = json.nextPageToken as string | null;
      first ??= token;
    } while (token !== null);
    expect(seen.toReversed()).toEqual(words);
    const again = await site().get("app", `?runId=${runId}&stream=stdout&pageSize=10&nextToken=${first}`);
    expect(again.json.logs[0].logLine).toBe("word 14");
    // The lines it stood between may be gone.
    await site().logStore.logs.expire({ before: Date.now() + 1_000, limit: 100_000 });
    const last = await site().get("app", `?pageSize=10&nextToken=${first}`);
    expect([last.status, last.json]).toEqual([200, { logs: [], nextPageToken: null, hasMore: false }]);
  });

  test("the traceback of an exception is in the run's log", async () => {
    const runId = await call("fail", { text: "no such model" });
    await until("it is here", async () => {
      const lines = await ofRun(runId);
      return lines.at(-1)?.logLine === "ValueError: no such model";
    });
    const lines = (await ofRun(runId)).map(({ logLine }) => logLine);
    expect(lines).toContain("before");
    expect(lines).toContain("Traceback (most recent call last):");
    expect(lines.join("\n")).toContain("in fail");
  });

  test("lines of many runs at once are never mixed up, nor those of threads within a run", async () => {
    const names = Array.from({ length: 6 }, (_, i) => `t${i}`);
    const runIds = await Promise.all(
      names.map((name) => call("threads", { name, count: 20, with_context: true })),
    );
    for (const [i, runId] of runIds.entries()) {
      await until("all of its lines are here", async () => (await ofRun(runId)).length === 80);
      const lines = await ofRun(runId);
      expect(lines.every(({ logLine }) => logLine.startsWith(`${names[i]} thread`))).toBe(true);
      expect(new Set(lines.map(({ logLine }) => logLine)).size).toBe(80);
    }
    const looped = await Promise.all(names.map((name) => call("run", { name, count: 50 }, "looped")));
    for (const [i, runId] of looped.entries()) {
      await until("all of its lines are here", async () => (await ofRun(runId, "looped")).length === 50);
      const lines = (await ofRun(runId, "looped")).map(({ logLine }) => logLine);
      expect(lines).toEqual(Array.from({ length: 50 }, (_, line) => `${names[i]} line ${line}`));
    }
  });

  // Without a tag the service tells by time: a line may come when its run is just over, and is nobody's then.
  test.each([
    ["child", { name: "c0" }, "c0 from a child", 1],
    ["threads", { name: "bare", count: 20, with_context: false }, "bare thread", 80],
  ])("lines without a tag (%s) are their run's, or nobody's", async (name, body, text, count) => {
    const runId = await call(name, body);
    const lines = async () => await site().lines("app", `?pageSize=1000&search=${encodeURIComponent(text)}`);
    await until("the lines are here", async () => (await lines()).length === count);
    for (const line of await lines()) expect([runId, null]).toContain(line.runId);
    expect(new Set((await lines()).map(({ logLine }) => logLine)).size).toBe(count);
  });

  test("all pieces of a line that is too long are their run's", async () => {
    const runId = await call("long", {});
    const length = async () => (await ofRun(runId)).reduce((sum, { logLine }) => sum + logLine.length, 0);
    await until("all of it is here", async () => (await length()) >= 200_000);
    expect(await length()).toBe(200_000);
  });

  test("a flood is cut off and told of, and another run's lines and calls are not touched", async () => {
    // While no time passes a run may print what it may at once, and no more.
    site().clock.hold();
    const runId = await call("flood", { lines: 20_000 }, "flooded");
    const other = await call("say", { words: ["heard"] }, "flooded");
    await until("the other's line is here", async () => (await ofRun(other, "flooded")).length > 0);
    site().clock.release();
    const told = async () => await site().lines("flooded", `?runId=${runId}&search=omitted`);
    await until("the log says so", async () => (await told()).length > 0);
    const [line] = await told();
    expect(line?.logLine).toContain("] 15000 lines were omitted here");
    expect((await ofRun(other, "flooded")).map(({ logLine }) => logLine)).toContain("heard");
    expect((await site().call("app", { x: 1 }, { functionName: "echo" })).json.result).toBe(1);
  });

  test("who may not, and what is asked wrongly, is told so", async () => {
    const { tokens, owner } = site().service;
    const account = { projectId: owner.projectId, name: "reader", expiresAt: Date.now() + 60_000 };
    const { token: run } = await tokens.issue({ ...account, role: "run" });
    const { token: deploy } = await tokens.issue({ ...account, role: "deploy" });
    const status = async (app: string, query = "", token = owner.token) =>
      (await site().get(app, query, token)).status;
    expect(await status("app", "", run)).toBe(403);
    expect(await status("app", "", deploy)).toBe(200);
    expect(await status("app", "", "nonsense")).toBe(401);
    expect(await status("none")).toBe(404);
    for (const query of [
      "pageSize=0",
      "pageSize=1000000000",
      "pageSize=-1",
      "nextToken=forged",
      "direction=sideways",
      "stream=stdin",
      "container=%00",
      "search=%00",
      "runId=x",
      "afterDate=yesterday",
      "beforeDate=2026-02-30T00:00:00Z",
      `search=${"x".repeat(201)}`,
    ]) {
      expect([query, await status("app", `?${query}`)]).toEqual([query, 400]);
    }
    for (const query of ["search=(a%2B)%2B%24", "search=%25", "afterDate=0001-01-01T00:00:00Z"]) {
      expect([query, await status("app", `?${query}`)]).toEqual([query, 200]);
    }
  });
});
