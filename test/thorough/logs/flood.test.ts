import { describe, expect, test } from "vitest";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { logSite } from "../../integration/logs/site.ts";

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

describe.each(DATABASE_KINDS)("lines of apps on %s", (kind) => {
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
});
