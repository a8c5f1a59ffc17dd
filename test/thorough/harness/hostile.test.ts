import { describe, expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { HeldClock } from "../../support/held-clock.ts";
import { descriptorsOf, isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";

const MAIN = `
import ctypes, json, os, signal, socket, sys, threading, time

def pid():
    return os.getpid()

def echo(x):
    return x

def end(how):
    ENDS[how]()

def _recurse_in_c():
    sys.setrecursionlimit(10 ** 9)
    value = []
    for _ in range(10 ** 5):
        value = [value]
    repr(value)
    ctypes.string_at(0)  # Where Python's own guard caught it, the end is made certain.

ENDS = {
    "exit-0": lambda: os._exit(0),
    "exit-3": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "kill-group": lambda: os.killpg(0, signal.SIGKILL),
    "recursion-in-c": _recurse_in_c,
}

class Nasty(Exception):
    def __str__(self):
        raise RuntimeError("no text")
    __repr__ = __str__

def _recurse(n):
    return _recurse(n + 1)

class Base(BaseException):
    pass

RAISES = {
    "sys-exit": lambda: sys.exit(7),
    "sys-exit-text": lambda: sys.exit("a reason"),
    "quit": lambda: exec("raise SystemExit"),
    "keyboard": lambda: exec("raise KeyboardInterrupt"),
    "base": lambda: exec("raise Base('all the way down')", globals()),
    "recursion": lambda: _recurse(0),
    "nasty": lambda: exec("raise Nasty()", globals()),
    "generator-exit": lambda: exec("raise GeneratorExit"),
    "stop-iteration": lambda: exec("raise StopIteration('s')"),
    "group": lambda: exec("raise ValueError('one') from KeyError('two')"),
}

def raises(how):
    RAISES[how]()

def handlers():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    return "ignored"

def close_all():
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass
    return "closed"

def overwrite_wire(text):
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and os.path.exists("/proc/self/fd/" + name):
            if os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                os.write(int(name), text.encode("latin-1"))
    return "written"

def patch():
    def broken(*args, **kwargs):
        raise RuntimeError("patched")
    for module, names in ((json, ("dumps", "loads", "JSONEncoder", "JSONDecoder")),
                          (socket, ("socket", "create_connection")),
                          (threading, ("Thread", "Lock", "Condition", "current_thread")),
                          (time, ("time", "sleep", "perf_counter")),
                          (os, ("write", "read", "fork", "register_at_fork"))):
        for name in names:
            setattr(module, name, broken)
    return "patched"

def drip():
    yield from (0, 1)

def forget_modules():
    for name in list(sys.modules):
        if name.startswith(("millrace_worker", "json", "traceback")):
            del sys.modules[name]
    return "forgotten"

def surroundings():
    os.chdir("/")
    os.umask(0)
    os.environ.clear()
    sys.path[:] = []
    sys.argv[:] = ["something", "else"]
    sys.setswitchinterval(0.5)
    return os.getcwd()

def trace():
    sys.settrace(lambda frame, event, arg: None)
    sys.setprofile(lambda frame, event, arg: None)
    return "traced"
`;

const LOOPED = `${MAIN}\nasync def anything():\n    return 1\n`;
const ONE = "[scaling]\nmax_replicas = 1\n";
const apps = {
  serial: { main: MAIN, toml: ONE },
  threads: { main: MAIN, toml: `${ONE}replica_concurrency = 4\n` },
  looped: { main: LOOPED, toml: ONE },
  neighbour: { main: MAIN, toml: ONE },
};
const clock = new HeldClock();
const service = sharedService(apps, WITHOUT_WALLS, { clock });

const call = (app: string, functionName: string, body: unknown = {}) =>
  service().call(app, body, { functionName });

async function pidOf(app: string): Promise<number> {
  const answer = await call(app, "pid");
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
  return answer.json.result;
}

describe.each(["serial", "threads", "looped"])("in an app of the kind %s", (app) => {
  test.each([
    ["exit-0", /exit code 0/],
    ["exit-3", /exit code 3/],
    ["kill", /SIGKILL/],
    ["segfault", /SIGSEGV/],
    ["abort", /SIGABRT/],
    ["kill-group", /SIGKILL/],
    ["recursion-in-c", /SIGSEGV/],
  ])("a process that ends by %s is a 502 that says how, and the next call is answered", async (how, says) => {
    const neighbour = await pidOf("neighbour");
    const before = await pidOf(app);
    // Held, so that how it ended is waited for as long as it takes to learn it.
    clock.hold();
    const answer = await call(app, "end", { how });
    clock.release();
    expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
    expect(answer.json.message).toMatch(says);
    const after = await pidOf(app);
    expect(after).not.toBe(before);
    expect(await pidOf("neighbour")).toBe(neighbour);
  });

  test.each([
    ["sys-exit", "SystemExit: 7"],
    ["sys-exit-text", "SystemExit: a reason"],
    ["quit", "SystemExit"],
    ["keyboard", "KeyboardInterrupt"],
    ["base", "Base: all the way down"],
    ["recursion", "RecursionError: "],
    ["nasty", "Nasty: (its __str__ failed)"],
    ["generator-exit", "GeneratorExit"],
    ["stop-iteration", "StopIteration: s"],
    ["group", "ValueError: one"],
  ])("the exception of %s is the run's own failure, and the replica lives", async (how, message) => {
    const before = await pidOf(app);
    const answer = await call(app, "raises", { how });
    expect([answer.status, answer.json.code]).toEqual([500, "app_error"]);
    expect(answer.json.message.slice(0, message.length)).toBe(message);
    expect(await pidOf(app)).toBe(before);
  });

  test("an app that ignores every signal still answers, and is still stopped", async () => {
    const toml = "[scaling]\nmax_replicas = 1\ncooldown = 0\nmin_replicas = 1\n";
    const { pool } = await service().deploy(`deaf-${app}`, { main: app === "looped" ? LOOPED : MAIN, toml });
    const before = await pidOf(`deaf-${app}`);
    expect((await call(`deaf-${app}`, "handlers")).json).toMatchObject({ result: "ignored" });
    expect(await pidOf(`deaf-${app}`)).toBe(before);
    await service().deploy(`deaf-${app}`, { main: `${LOOPED}\nv = 2\n`, toml });
    await until("the deaf replica is gone", () => pool.replicas.size === 0 && !isAlive(before));
  });

  test("an app that closes every descriptor loses its replica, and nothing else", async () => {
    const neighbour = await pidOf("neighbour");
    const before = await pidOf(app);
    const answer = await call(app, "close_all");
    expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
    expect(await pidOf(app)).not.toBe(before);
    expect(await pidOf("neighbour")).toBe(neighbour);
  });

  test("an app that writes to its own connections loses its replica, and nothing else", async () => {
    const neighbour = await pidOf("neighbour");
    for (const text of ["\xff".repeat(64), "\x02\0\0\0\x01\0\0\0\x05{}", "\0\0\0\0\0\0\0\0\x02"]) {
      const before = await pidOf(app);
      const answer = await call(app, "overwrite_wire", { text });
      expect([text, answer.status, answer.json.code]).toEqual([text, 502, "app_crashed"]);
      expect(await pidOf(app)).not.toBe(before);
    }
    expect(await pidOf("neighbour")).toBe(neighbour);
  });

  test("an app that patches json, socket, threading, time and os still answers", async () => {
    const before = await pidOf(app);
    expect((await call(app, "patch")).json).toMatchObject({ result: "patched" });
    // More at once than have threads by now: no other can be made.
    const echoes = await Promise.all([1, 2, 3].map((n) => call(app, "echo", { x: [n, { y: "z" }] })));
    expect(echoes.map(({ json }) => json.result)).toEqual([1, 2, 3].map((n) => [n, { y: "z" }]));
    expect((await call(app, "drip")).text).toBe("data: 0\n\ndata: 1\n\n");
    const raised = await call(app, "raises", { how: "base" });
    expect([raised.status, raised.json.message]).toEqual([500, "Base: all the way down"]);
    expect((await call(app, "echo", {})).status).toBe(422);
    expect((await call(app, "end", { how: "exit-3" })).status).toBe(502);
    expect(await pidOf(app)).not.toBe(before);
  });

  test("an app that empties sys.modules, or changes its directory and environment, still answers", async () => {
    const before = await pidOf(app);
    for (const name of ["forget_modules", "surroundings", "trace"]) {
      expect((await call(app, name)).status).toBe(200);
      expect((await call(app, "echo", { x: name })).json).toMatchObject({ result: name });
      const raised = await call(app, "raises", { how: "group" });
      expect([raised.status, raised.json.message]).toEqual([500, "ValueError: one"]);
    }
    expect(await pidOf(app)).toBe(before);
  });
});

test("no hostile app has left a connection behind in the service", async () => {
  const sockets = () => [...descriptorsOf(process.pid).values()].filter((link) => link.startsWith("socket:"));
  const before = sockets().length;
  for (let round = 0; round < 5; round++) {
    await call("serial", "end", { how: "exit-0" });
    await pidOf("serial");
  }
  await until("the connections of the dead are closed", () => sockets().length <= before);
});
