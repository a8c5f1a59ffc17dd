import { describe, expect, test } from "vitest";
import { findPythons } from "../../support/pythons.ts";
import { gateFile, letGo, runningId } from "../../support/run-apps.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { CuttingProxy } from "./cutting-proxy.ts";
import { CLIENTS_MAIN, inPython, newGate } from "./site.ts";

const ONE = "[scaling]\nmax_replicas = 1\n";
const service = sharedService({
  app: { main: CLIENTS_MAIN, toml: "[scaling]\nmax_replicas = 2\n" },
  one: { main: CLIENTS_MAIN, toml: ONE },
  open: { main: CLIENTS_MAIN, toml: "[deployment]\ndisable_auth = true\n" },
});

const ID = expect.stringMatching(/^[0-9a-f-]{36}$/);

describe.each(findPythons())("Python $version", ({ command }) => {
  const python = async (program: string, url?: string): Promise<unknown> =>
    await inPython(service(), program, url, command);

  verifies("client.python", "run gives what the function returned, or raises", async () => {
    const shown = await python(`
def raised(call):
    try:
        call()
    except MillraceError as error:
        return [type(error).__name__, error.code, error.status, str(error), list(error.details)]
show([
    millrace.run("app", {"name": "Ada"}),
    millrace.run("app", {"value": [1, "ž", 2**60]}, function="echo").result,
    millrace.run("app", {"code": 418}, function="code")[1:],
    millrace.run("app", {"code": 204}, function="code")[1:],
    Millrace(url + "/", project).run("open").result,
    raised(lambda: Millrace(url, project, "no").run("app")),
    raised(lambda: millrace.run("none")),
    raised(lambda: millrace.run("app", {"nmae": 1})),
    raised(lambda: millrace.run("app", function="fail")),
    raised(lambda: millrace.run("app", {"upto": 3}, function="count"))[:2],
    raised(lambda: Millrace("http://127.0.0.1:9", project, token).run("app"))[:2],
])`);
    const teapot = { status_code: 418, why: "asked" };
    const misfit = { field: "nmae", problem: "unknown" };
    expect(shown).toEqual([
      [ID, { message: "Hello, Ada!" }, expect.any(Number), 200],
      [1, "ž", 2 ** 60],
      [teapot, expect.any(Number), 418],
      [null, null, 204],
      { message: "Hello, World!" },
      ["Unauthorized", "unauthorized", 401, expect.any(String), []],
      ["NotFound", "app_not_found", 404, expect.any(String), []],
      ["InvalidArguments", "invalid_arguments", 422, expect.any(String), [expect.objectContaining(misfit)]],
      ["AppFailed", "app_error", 500, "ValueError: no", []],
      ["MillraceError", "is_stream"],
      ["ConnectionLost", "connection_lost"],
    ]);
  });

  verifies(
    ["client.python", "terms.clients", "fair.clients"],
    "run_async asks of the queue what its caller asks",
    async () => {
      const shown = await python(`
from datetime import datetime, timedelta, timezone
due = datetime.now(timezone(timedelta(hours=3))) + timedelta(hours=1)
run = millrace.run_async(
    "app", priority=-30, delay=due, ttl="90s", timeout=timedelta(minutes=2), max_attempts=3, tags=["a", "b&c"],
    concurrency_key="k 1", fairness_key="line-1",
)
record = run.record()
times = [datetime.fromisoformat(record[name].replace("Z", "+00:00")) for name in ("dueAt", "startBy", "endBy")]
print(json.dumps([
    [record[name] for name in ("status", "priority", "maxAttempts", "tags", "concurrencyKey", "fairnessKey")],
    abs(times[0] - due) < timedelta(seconds=1),
    [(time - times[0]).total_seconds() for time in times[1:]],
    run.cancel(),
]))
`);
      expect(shown).toEqual([["queued", -30, 3, ["a", "b&c"], "k 1", "line-1"], true, [90, 120], true]);
    },
  );

  verifies("client.python", "run_async gives a run to look at, wait for and cancel", async () => {
    const gate = newGate();
    const shown = await python(`
held = millrace.run_async("app", {"gate": "${gate}"}, function="held")
seen = [held.result(), held.record()["status"] in ("queued", "running")]
try:
    held.wait(timeout=0)
except StillRunning as error:
    seen.append(error.run.id == held.id)
open(${JSON.stringify(gateFile(service(), "app", gate))}, "w").close()
seen += [held.wait().result, held.result().result, held.record()["status"], held.cancel()]
lost = millrace.run_async("app", {"gate": "never"}, function="held")
seen.append(lost.cancel())
try:
    lost.wait()
except Cancelled as error:
    seen.append(error.code)
yielding = millrace.run_async("app", {"upto": 3}, function="count")
seen += [yielding.wait().result, list(yielding.stream())]
show(seen)`);
    const counted = ["m1", "m2", "m3"];
    expect(shown).toEqual([
      null,
      true,
      true,
      "let go",
      "let go",
      "success",
      false,
      true,
      "cancelled",
      counted,
      counted,
    ]);
  });

  verifies("client.python", "stream gives what the function yields, then raises what it raised", async () => {
    const shown = await python(`
seen = []
try:
    for text in millrace.stream("app", {"upto": 2}, function="broken"):
        seen.append(text)
except AppFailed as error:
    seen.append(str(error))
seen += millrace.stream("app", function="values")
seen += millrace.stream("app", {"name": "Ada"}).json()
seen += millrace.stream("app", {"code": 404}, function="code").json()
seen += [list(message) for message in millrace.stream("app", function="own").messages()]
seen += Millrace(url, project).stream("open", {"upto": 2}, function="count")
show(seen)`);
    expect(shown).toEqual([
      "m1",
      "m2",
      "ValueError: broken",
      "two\nlines",
      '{"a":[1,null]}',
      "9007199254740993",
      "",
      '"quoted"',
      { message: "Hello, Ada!" },
      { status_code: 404, why: "asked" },
      ["a", "x "],
      [null, "1"],
      [null, "2"],
      [null, "3"],
      "m1",
      "m2",
    ]);
  });
});

describe("retries", () => {
  verifies("client.python", "of a call that broke while it ran find the run, which ran once", async () => {
    const gate = newGate();
    const proxy = await CuttingProxy.open(service().service.apiUrl);
    const program = `show(millrace.run("app", {"gate": "${gate}"}, function="held", retries=3))`;
    const shown = inPython(service(), program, proxy.url);
    const id = await runningId(service(), "app", "held");
    proxy.cutAll();
    await until("it came again", () => proxy.connections > 1);
    letGo(service(), "app", gate);
    expect(await shown).toEqual([id, "let go", expect.any(Number), 200]);
  });

  verifies("client.python", "of a call that broke while it waited have it run after all", async () => {
    const gate = newGate();
    const proxy = await CuttingProxy.open(service().service.apiUrl);
    const blocking = service().call("one", { gate }, { functionName: "held" });
    await runningId(service(), "one", "held");
    const program = `show(millrace.run("one", {"value": 7}, function="echo", retries=10).result)`;
    const shown = inPython(service(), program, proxy.url);
    const waiting = (): number | undefined => service().apps.get("one")?.pool.slots.waiting;
    await until("the call waits", () => waiting() === 1);
    proxy.isDown = true;
    proxy.cutAll();
    await until("it is dropped", () => waiting() === 0);
    proxy.isDown = false;
    await until("it waits again", () => waiting() === 1);
    letGo(service(), "one", gate);
    expect(await shown).toBe(7);
    expect((await blocking).json.result).toBe("let go");
  });

  test("many threads may use one client", async () => {
    const shown = await inPython(
      service(),
      `
from concurrent.futures import ThreadPoolExecutor
def call(n):
    return [millrace.run("app", {"value": n}, function="echo").result, len(list(millrace.stream("app", {"upto": n}, function="count")))]
with ThreadPoolExecutor(8) as pool:
    show(list(pool.map(call, range(40))))`,
    );
    expect(shown).toEqual(Array.from({ length: 40 }, (_, n) => [n, n]));
  });
});
