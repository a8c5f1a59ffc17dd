import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parentOf } from "../../support/process-tree.ts";
import { findPythons } from "../../support/pythons.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const WORKER = path.join(REPOSITORY, "python", "millrace_worker");

const WALLS = path.join(REPOSITORY, "python/millrace_walls");

/** Names what a folder's files need beyond Python 3.9's grammar, the standard library and the harness, one line each. */
const CHECK = `
import ast, os, sys
for name in sorted(os.listdir(sys.argv[1])):
    if not name.endswith(".py"):
        continue
    with open(os.path.join(sys.argv[1], name), encoding="utf-8") as file:
        text = file.read()
    try:
        tree = ast.parse(text, name, feature_version=(3, 9))
    except SyntaxError as error:
        print(name, error.msg)
        continue
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module]
        for module in modules:
            root = module.partition(".")[0]
            if root not in (*getattr(sys, "stdlib_module_names", ()), "millrace_walls", "millrace_worker"):
                print(name, "imports", root)
`;

const pythons = findPythons();
const [python] = pythons;

function check(folder: string): string {
  return execFileSync(python?.command ?? "python3", ["-c", CHECK, folder], { encoding: "utf8" });
}

const APP = `
import asyncio, dataclasses, os, random, sys, time

@dataclasses.dataclass
class Point:
    x: int

def version():
    return "%d.%d.%d" % sys.version_info[:3]

def run(n: int = 1, *, text="t"):
    print("said", n)
    return {"point": Point(n), "text": text, "pid": os.getpid()}

def raises():
    raise ValueError("ü")

def count(n):
    for i in range(n):
        yield i

def listed(n: list[int], run_id: list[str]):
    if 3 in n:
        raise ValueError("three")
    return [2 * each for each in n]

def listed_chunks(n: list[int]):
    from millrace import END
    for step in range(max(n) + 1):
        yield [END if step >= each else step for each in n]

def forked():
    pid = os.fork()
    if pid == 0:
        return "child"
    os.waitpid(pid, 0)
    return "parent"
`;
const ASYNC = `${APP}
async def later(n):
    await asyncio.sleep(0.001)
    return n

async def count_later(n):
    for i in range(n):
        yield i

async def listed_later(n: list[int]):
    await asyncio.sleep(0)
    return listed(n, [])
`;

const COUNTED = Array.from({ length: 20_000 }, (_, i) => `data: ${i}\n\n`).join("");

verifies(
  "replica.python-versions",
  "the harness is the standard library's and compiles on every Python at hand",
  () => {
    expect(check(WORKER)).toBe("");
    // A template with GPUs loads a part of them.
    expect(check(WALLS)).toBe("");
    for (const { command, version } of pythons) {
      const out = mkdtempSync(path.join(tmpdir(), "millrace-compile-"));
      onTestFinished(() => rmSync(out, { recursive: true, force: true }));
      const compile =
        "import compileall, sys; sys.exit(not compileall.compile_dir(sys.argv[1], quiet=1, force=True))";
      const args = ["-X", `pycache_prefix=${out}`, "-W", "error", "-c", compile, WORKER];
      expect(() => execFileSync(command, args), `Python ${version}`).not.toThrow();
    }
  },
);

test("the check finds a package and newer grammar", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-check-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(path.join(folder, "a.py"), "import json, numpy.random\nfrom .b import x\n");
  writeFileSync(path.join(folder, "b.py"), "match 1:\n    case 1:\n        pass\n");
  expect(check(folder)).toMatch(/^a\.py imports numpy\nb\.py .*3\.10/);
});

describe.each(pythons)("on Python $version", ({ command, version }) => {
  test("an app of each kind answers, forks, logs and fails as it should", async () => {
    const one = "[scaling]\nmax_replicas = 1\n";
    const batching = "\n[batching.listed]\n[batching.listed_chunks]\n";
    const service = await testService(
      {
        serial: { main: APP, toml: `[scaling]\nmin_replicas = 2\nmax_replicas = 2\n${batching}` },
        threads: { main: APP, toml: `${one}replica_concurrency = 4\n${batching}` },
        looped: { main: ASYNC, toml: `${one}replica_concurrency = 4\n${batching}[batching.listed_later]\n` },
      },
      { python: command },
    );
    for (const app of ["serial", "threads", "looped"]) {
      const call = (functionName: string, body: object = {}) => service.call(app, body, { functionName });
      expect((await call("version")).json).toMatchObject({ result: version });
      const answers = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => call("run", { n })));
      expect(answers.map(({ json }) => json.result?.point)).toEqual([1, 2, 3, 4, 5, 6].map((x) => ({ x })));
      expect((await call("raises")).json).toMatchObject({ code: "app_error", message: "ValueError: ü" });
      expect((await call("run", { m: 1 })).status).toBe(422);
      expect((await call("forked")).json).toMatchObject({ result: "parent" });
      const streams = app === "looped" ? ["count", "count_later"] : ["count"];
      for (const name of streams) expect((await call(name, { n: 20_000 })).text).toBe(COUNTED);
      for (const name of app === "looped" ? ["listed", "listed_later"] : ["listed"]) {
        const lists = await Promise.all([1, 2, 3, 4, 5].map((n) => call(name, { n })));
        expect(lists.map(({ json }) => json.result ?? json.message)).toEqual([
          2,
          4,
          "ValueError: three",
          8,
          10,
        ]);
      }
      const chunks = await Promise.all([2, 0, 3].map((n) => call("listed_chunks", { n })));
      expect(chunks.map(({ text }) => text.split("data: ").length - 1)).toEqual([2, 0, 3]);
      const runId = answers[0]?.json.run_id;
      await until("its line is here", () =>
        service.logs.some((line) => line.text === "said 1" && line.runId === runId),
      );
    }
    expect((await service.call("looped", { n: 7 }, { functionName: "later" })).json).toMatchObject({
      result: 7,
    });
    await until("both replicas are ready", () => service.ready("serial") === 2);
    const pids = [...(service.apps.get("serial")?.pool.replicas ?? [])].map(({ pid }) => pid);
    expect(new Set(pids.map((pid) => parentOf(parentOf(pid)))).size).toBe(1);
    expect(parentOf(parentOf(pids[0] ?? 0))).not.toBe(process.pid);
  });
});
