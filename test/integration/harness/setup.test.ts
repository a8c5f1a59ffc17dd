import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { HandClock } from "../../support/clocks.ts";
import { testPool } from "../../support/pool.ts";
import { isAlive, parentOf } from "../../support/process-tree.ts";
import { type TestApp, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Notes what happens in which process; `wait_for` holds an app until the test leaves a file of that name. */
const NOTES = `
import os
import time

_place = os.path.join(os.environ.get("PERSISTENT_STORAGE", "."), os.environ.get("APP_NAME", "app"))

def _note(what):
    with open(_place, "a") as file:
        file.write("%s %d\\n" % (what, os.getpid()))

def _wait_for(name):
    while not os.path.exists(_place + "." + name):
        time.sleep(0.005)
`;

const MAIN = `${NOTES}
_note("import")
weights = list(range(1000))
seen = []

def setup():
    _note("setup")
    seen.append(os.getpid())

def run():
    _note("call")
    return [os.getpid(), seen, id(weights)]
`;

const service = sharedService({}, WITHOUT_WALLS);

const storage = (): string =>
  path.join(service().settings.dataDir, "storage", service().service.owner.projectId);
const letGo = (app: string, name: string): void => writeFileSync(path.join(storage(), `${app}.${name}`), "");

/** What an app has noted, in order: a word and the process. */
function notes(app: string): [what: string, pid: number][] {
  const file = path.join(storage(), app);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").trim().split("\n");
  return lines.map((line) => [line.split(" ")[0] ?? "", Number(line.split(" ")[1])]);
}

/** The processes that noted that. */
const noted = (app: string, what: string): number[] =>
  notes(app).flatMap(([each, pid]) => (each === what ? [pid] : []));

const ascending = (pids: readonly number[]): number[] => pids.toSorted((a, b) => a - b);

/** Deploys an app that keeps so many replicas; gives their pids once all are ready. */
async function keep(count: number, name: string, main: string, toml = ""): Promise<number[]> {
  const scaling = `min_replicas = ${count}\nmax_replicas = ${count}\nload_balancing_algorithm = "round-robin"\n`;
  const { pool } = await service().deploy(name, { main, toml: `[scaling]\n${scaling}${toml}` });
  await until(`${count} replicas are ready`, () => service().ready(name) === count);
  return [...pool.replicas].map(({ pid }) => pid);
}

const timings = (headers: Headers): Map<string, number> =>
  new Map(
    (headers.get("server-timing") ?? "").split(", ").map((part) => {
      const [name = "", ms] = part.split(";dur=");
      return [name, Number(ms)];
    }),
  );

verifies(
  ["setup.once", "setup.template"],
  "three forks of one template share one import, and each runs setup() once, before its first call",
  async () => {
    const pids = await keep(3, "forks", MAIN);
    const [template, ...others] = noted("forks", "import");
    expect(others).toEqual([]);
    expect(new Set(pids.map((pid) => parentOf(parentOf(pid))))).toEqual(new Set([template]));
    expect(ascending(noted("forks", "setup"))).toEqual(ascending(pids));
    const answers = [];
    for (let call = 0; call < 6; call++) answers.push((await service().call("forks")).json.result);
    expect(new Set(answers.map(([pid]) => pid))).toEqual(new Set(pids));
    for (const [pid, seen] of answers) expect(seen).toEqual([pid]);
    // The same object of the one import, at the same place in each.
    expect(new Set(answers.map(([, , weights]) => weights)).size).toBe(1);
    expect(noted("forks", "setup")).toHaveLength(3);
  },
);

const THREAD = `${MAIN}
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
`;

verifies("setup.once", "it runs once in each replica, forked or not, whatever way calls run", async () => {
  const apps: Record<string, [main: string, toml: string]> = {
    alone: [MAIN, '[deployment]\nfork = "never"\n'],
    thread: [THREAD, ""],
    several: [MAIN, "replica_concurrency = 4\n"],
    looped: [`${MAIN}\nasync def other():\n    pass\n`, "replica_concurrency = 4\n"],
  };
  for (const [name, [main, toml]] of Object.entries(apps)) {
    const pids = await keep(2, name, main, toml);
    expect([name, ascending(noted(name, "setup"))]).toEqual([name, ascending(pids)]);
    const calls = await Promise.all(Array.from({ length: 8 }, () => service().call(name)));
    for (const { json } of calls) expect(json.result[1]).toEqual([json.result[0]]);
    expect(noted(name, "setup")).toHaveLength(pids.length);
  }
});

verifies("setup.once", "a first call waits for it, and a call in a thread finds what it made", async () => {
  const main = `${NOTES}
import threading
made = {}

def setup(path="weights"):
    _note("setup")
    _wait_for("go")
    made["in"] = [path, threading.current_thread() is threading.main_thread()]

def run():
    return made["in"]
`;
  for (const concurrency of [1, 4]) {
    const name = `waits-${concurrency}`;
    const { pool } = await service().deploy(name, {
      main,
      toml: `[scaling]\nreplica_concurrency = ${concurrency}\nmax_replicas = 1\n`,
    });
    const called = service().call(name);
    await until("setup() runs", () => noted(name, "setup").length === 1);
    // It is under its own limits by then: its process is known before it says HELLO.
    const [pid] = noted(name, "setup");
    await until("its process is known", () => [...pool.replicas].every((replica) => replica.pid === pid));
    expect([...pool.replicas].map(({ state }) => state)).toEqual(["starting"]);
    letGo(name, "go");
    expect((await called).json.result).toEqual(["weights", true]);
  }
});

verifies("setup.async", "async def runs on the event loop that calls use, and its tasks run on", async () => {
  const main = `
import asyncio, threading
kept = {}
done = threading.Event()

async def _watch(go):
    await go.wait()
    done.set()

async def setup():
    await asyncio.sleep(0)
    kept["loop"] = asyncio.get_running_loop()
    kept["go"] = asyncio.Event()
    kept["task"] = asyncio.ensure_future(_watch(kept["go"]))
`;
  const both = `${main}
async def run():
    kept["go"].set()
    await kept["task"]
    return [kept["loop"] is asyncio.get_running_loop(), done.is_set()]
`;
  await service().deploy("async", { main: both });
  expect((await service().call("async")).json.result).toEqual([true, true]);
  // No function of this one is async.
  const plain = `${main}
def run():
    kept["loop"].call_soon_threadsafe(kept["go"].set)
    done.wait()
    return True
`;
  await service().deploy("async-plain", { main: plain });
  expect((await service().call("async-plain")).json.result).toBe(true);
});

verifies(
  "setup.async",
  "a def beside async functions may use asyncio.run, and the loop is still theirs",
  async () => {
    const main = `
import asyncio
made = []

async def _load():
    return "weights"

def setup():
    made.append(asyncio.run(_load()))

async def run():
    await asyncio.sleep(0)
    return made
`;
    await service().deploy("beside", { main });
    expect((await service().call("beside")).json.result).toEqual(["weights"]);
  },
);

describe("a setup() that raises", () => {
  const RAISED = [
    ["value", "raise ValueError('no weights here')", "ValueError: no weights here"],
    ["exit", "raise SystemExit('no weights here')", "SystemExit: no weights here"],
    ["interrupt", "raise KeyboardInterrupt", "KeyboardInterrupt"],
  ] as const;
  for (const [name, statement, message] of RAISED)
    verifies("setup.fails", `${name}: callers get app_not_ready, the log has the traceback`, async () => {
      for (const [kind, toml] of [
        ["def", ""],
        ["async def", ""],
        ["def", '[deployment]\nfork = "never"\n'],
      ] as const) {
        const app = `${name}-${kind.slice(0, 1)}-${toml.length}`;
        const main = `def run():\n    return 1\n\n${kind} setup():\n    print("loading", end="")\n    ${statement}\n`;
        await service().deploy(app, { main, toml });
        const answer = await service().call(app);
        expect([app, answer.status, answer.json.code]).toEqual([app, 503, "app_not_ready"]);
        expect(answer.json.message).toBe(message);
        const printed = (): string[] =>
          service()
            .logs.filter(({ appName }) => appName === app)
            .map(({ text }) => text);
        await until("the log has it", () => printed().includes(message) && printed().includes("loading"));
        expect(printed()).toContain('  File "main.py", line 6, in setup');
        expect(
          printed().filter((line) => line.includes("millrace_worker") || line.includes("asyncio")),
        ).toEqual([]);
      }
    });
});

verifies(
  "setup.refused",
  "one that cannot be called without arguments, that yields or that nothing awaits is refused",
  async () => {
    const REFUSED = {
      parameter: ["def setup(model, *, device, size=1):\n    pass", /requires model, device: remove/],
      "run-id": ["def setup(run_id):\n    pass", /requires run_id: remove/],
      generator: ["def setup():\n    yield 1", /is a generator, .*: remove its yield/],
      coroutine: [
        "async def _load():\n    pass\n\ndef setup():\n    return _load()",
        /returned an awaitable/,
      ],
      "async-generator": ["async def setup():\n    yield 1", /is a generator, .*: remove its yield/],
    } as const;
    for (const [app, [code, message]] of Object.entries(REFUSED)) {
      await service().deploy(app, { main: `def run():\n    return 1\n\n${code}\n` });
      const answer = await service().call(app);
      expect([app, answer.status, answer.json.code]).toEqual([app, 503, "app_not_ready"]);
      expect(answer.json.message).toMatch(/^TypeError: setup\(\) in main\.py /);
      expect(answer.json.message).toMatch(message);
    }
  },
);

verifies(
  "setup.not-callable",
  "setup is 404 to callers, cold and warm, and no function of the app",
  async () => {
    const { pool } = await service().deploy("hidden", { main: MAIN });
    const expectRefused = async (): Promise<void> => {
      for (const suffix of ["", "?async=true"]) {
        const { status, json } = await service().call("hidden", {}, { functionName: "setup", suffix });
        expect([status, json.code]).toEqual([404, "function_not_found"]);
        expect(json.message).toMatch(/^setup cannot be called: .* at each start of a replica\.$/);
      }
    };
    await expectRefused();
    expect(pool.replicas.size).toBe(0);
    expect((await service().call("hidden")).status).toBe(200);
    await expectRefused();
    const { json } = await service().call("hidden", "", { functionName: "openapi.json", method: "GET" });
    expect(Object.keys(json.paths)).toContain("/run");
    expect(JSON.stringify(json)).not.toContain("setup");
  },
);

describe("what is not the app's setup()", () => {
  const LIB = `import os
def setup():
    with open(os.path.join(os.environ["PERSISTENT_STORAGE"], os.environ["APP_NAME"]), "a") as file:
        file.write("setup %d\\n" % os.getpid())
`;
  const OTHERS: Record<string, string> = {
    imported: "from lib import setup",
    class: "class setup:\n    def __init__(self):\n        raise ValueError('made')",
    value: "setup = 'a text'",
    module: "import lib as setup",
    instance:
      "class _Setup:\n    def __call__(self):\n        raise ValueError('called')\n\nsetup = _Setup()",
  };
  const run = "def run():\n    return 1";
  verifies("setup.own", "an imported one, a class and other values are left alone", async () => {
    for (const [name, code] of Object.entries(OTHERS)) {
      const app = `not-${name}`;
      await service().deploy(app, { main: `${code}\n\n${run}\n`, files: { "lib.py": LIB } });
      expect([name, (await service().call(app)).json.result]).toEqual([name, 1]);
      expect((await service().call(app, {}, { functionName: "setup" })).status).toBe(404);
      expect(noted(app, "setup")).toEqual([]);
    }
  });

  verifies("setup.own", "an imported one that __all__ lists is", async () => {
    const main = `from lib import setup\n__all__ = ["setup"]\n\n${run}\n`;
    await service().deploy("listed", { main, files: { "lib.py": LIB } });
    expect((await service().call("listed")).json.result).toBe(1);
    expect(noted("listed", "setup")).toHaveLength(1);
  });
});

verifies("setup.log", "what it prints is in the app's log, with its replica and without a run", async () => {
  const main = `
import sys

def setup():
    print("loading weights")
    print("half a line", end="")
    print("a warning", file=sys.stderr)

def run():
    return 1
`;
  const { pool } = await service().deploy("prints", { main });
  await service().call("prints");
  const [replica] = [...pool.replicas].map(({ id }) => id);
  const lines = () => service().logs.filter(({ appName }) => appName === "prints");
  await until("all lines came", () => lines().length === 3);
  const byText = new Map(lines().map((line) => [line.text, [line.stream, line.replicaId, line.runId]]));
  expect(Object.fromEntries(byText)).toEqual({
    "loading weights": ["stdout", replica, null],
    "half a line": ["stdout", replica, null],
    "a warning": ["stderr", replica, null],
  });
});

const HUNG = `${NOTES}
def setup():
    _note("setup")
    if not os.path.exists(_place + ".go"):
        import threading
        threading.Event().wait()

def run():
    return os.getpid()
`;

verifies(
  "setup.killed",
  "a signal ends a replica in the middle of it, and the waiting call gets the next",
  async () => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const app = `hung-${signal.toLowerCase()}`;
      await service().deploy(app, { main: HUNG, toml: "[scaling]\nmax_replicas = 1\n" });
      const called = service().call(app);
      await until("setup() runs", () => noted(app, "setup").length === 1);
      letGo(app, "go");
      const [pid = 0] = noted(app, "setup");
      process.kill(pid, signal);
      const answer = await called;
      expect(answer.status).toBe(200);
      expect(noted(app, "setup")).toEqual([pid, answer.json.result]);
      expect(isAlive(pid)).toBe(false);
    }
  },
);

/** For pools: their apps write into their folder. */
const pooled = (main: string, toml = ""): TestApp => ({
  main: main.replace(/^_place = .*$/m, '_place = os.path.abspath("noted")'),
  toml: `[scaling]\nmax_replicas = 1\n${toml}`,
});

verifies("setup.killed", "a stop in the middle of it ends the replica at once", async () => {
  for (const fork of ["auto", "never"]) {
    const pool = await testPool(pooled(HUNG, `[deployment]\nfork = "${fork}"\n`));
    const { ended } = pool.submit("run", {});
    await until("setup() runs", () => pool.has("noted"));
    const pid = Number(pool.text("noted").trim().split(" ")[1]);
    for (const replica of pool.pool.replicas) pool.pool.fleet.retire(replica);
    await until("it is gone", () => !isAlive(pid));
    pool.leave("noted.go");
    // It was stopped by the service: no failure of the app.
    expect(await ended).toMatchObject({ kind: "returned" });
  }
});

verifies(
  "setup.timeout",
  "one that does not end counts toward deployment_initialization_timeout",
  async () => {
    for (const fork of ["auto", "never"]) {
      const clock = new HandClock();
      const pool = await testPool(pooled(HUNG, `[deployment]\nfork = "${fork}"\n`), clock);
      const { ended } = pool.submit("run", {});
      await until("setup() runs", () => pool.has("noted"));
      clock.advance(599_000);
      expect(pool.exits).toEqual([]);
      clock.advance(2_000);
      expect(await ended).toMatchObject({
        kind: "refused",
        code: "app_not_ready",
        message: expect.stringMatching(/within deployment_initialization_timeout \(600 s\)$/) as string,
      });
    }
  },
);

verifies("setup.crash-loop", "one that fails again and again is tried with growing gaps", async () => {
  const clock = new HandClock();
  const main = "def setup():\n    raise ValueError('no weights here')\n\ndef run():\n    return 1\n";
  const pool = await testPool(pooled(main, "min_replicas = 1\n"), clock);
  for (const [index, ms] of [250, 500, 1_000, 2_000].entries()) {
    await until("that one has ended", () => pool.exits.length === index + 1);
    const { starts } = pool.pool.counts;
    clock.advance(0.8 * ms - 1);
    expect([ms, pool.pool.counts.starts]).toEqual([ms, starts]);
    clock.advance(0.4 * ms + 1);
    expect([ms, pool.pool.counts.starts]).toEqual([ms, starts + 1]);
  }
});

verifies("setup.server-timing", "a call that waited for it has a phase setup, others have none", async () => {
  const main = `${NOTES}
def setup():
    _note("setup")
    _wait_for("go")

def run():
    return 1
`;
  await service().deploy("timed", { main });
  const called = service().call("timed");
  await until("setup() runs", () => noted("timed", "setup").length === 1);
  letGo("timed", "go");
  const cold = timings((await called).headers);
  expect([...cold.keys()]).toEqual(["queue", "start", "setup", "run"]);
  expect(cold.get("setup")).toBeGreaterThan(0);
  expect(cold.get("setup")).toBeLessThanOrEqual(cold.get("start") ?? 0);
  const warm = timings((await service().call("timed")).headers);
  expect([...warm.keys()]).toEqual(["queue", "start", "run"]);
});

test("an app without setup() has no such phase", async () => {
  await service().deploy("plain", { main: "def run():\n    return 1\n" });
  expect([...timings((await service().call("plain")).headers).keys()]).toEqual(["queue", "start", "run"]);
});
