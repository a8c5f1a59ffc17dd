import path from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ALLOWED, NO_GPU_VARIABLES } from "../../../src/host/app-environment.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os, sys

with open(os.path.join(os.environ["PERSISTENT_STORAGE"], "imports-" + os.environ["APP_NAME"]), "a") as log:
    log.write("%d\\n" % os.getpid())
STATE = {"calls": 0, "pid": os.getpid()}

def count():
    STATE["calls"] += 1
    return {"calls": STATE["calls"], "pid": os.getpid()}

def imports():
    with open(os.path.join(os.environ["PERSISTENT_STORAGE"], "imports-" + os.environ["APP_NAME"])) as log:
        return log.read().split()

def place():
    with open("data.txt") as data:
        return {"cwd": os.getcwd(), "main": os.path.dirname(os.path.abspath(__file__)), "data": data.read(),
                "argv": sys.argv, "path": sys.path[0], "name": __name__}

def environment():
    return dict(os.environ)

def write(text):
    with open(os.path.join(os.environ["PERSISTENT_STORAGE"], "note"), "w") as note:
        note.write(text)

def read():
    with open(os.path.join(os.environ["PERSISTENT_STORAGE"], "note")) as note:
        return note.read()

def die():
    os._exit(1)
`;

beforeAll(() => {
  vi.stubEnv("MILLRACE_TEST_SECRET", "must-not-be-seen");
  vi.stubEnv("PYTHONPATH", "/must/not/be/seen");
  vi.stubEnv("MILLRACE_DATABASE_URL_COPY", "postgres://must-not-be-seen");
});
afterAll(() => vi.unstubAllEnvs());

const files = { "data.txt": "beside main.py" };
const service = sharedService({
  around: { main: MAIN, files, toml: "[scaling]\nmax_replicas = 1\n" },
  ordinary: { main: MAIN, files, toml: '[deployment]\nfork = "never"\n[scaling]\nmax_replicas = 1\n' },
  other: { main: MAIN, files },
  named: {
    main: "from tokenize import words\ndef run(text):\n    return words(text)",
    files: { "tokenize.py": "def words(text):\n    return text.split()" },
  },
});

// oxlint-disable-next-line no-explicit-any
async function result(functionName: string, body: unknown = {}, app = "around"): Promise<any> {
  const answer = await service().call(app, body, { functionName });
  expect(answer.status).toBe(200);
  return answer.json.result;
}

verifies("app.import-once", "main.py is imported once, however many calls follow", async () => {
  for (const app of ["around", "ordinary"]) {
    for (let call = 0; call < 5; call++) await result("count", {}, app);
    expect(await result("imports", {}, app)).toHaveLength(1);
  }
});

verifies(
  "app.module-state",
  "what module-level code made is there for every call, and keeps changes",
  async () => {
    const first = await result("count", {}, "ordinary");
    const second = await result("count", {}, "ordinary");
    expect([second.pid, second.calls]).toEqual([first.pid, first.calls + 1]);
  },
);

verifies("app.working-directory", "the working directory is the bundle", async () => {
  for (const app of ["around", "ordinary"]) {
    const place = await result("place", {}, app);
    const bundle = service().bundleDir(app);
    expect(place).toMatchObject({ cwd: bundle, main: bundle, data: "beside main.py", name: "main" });
    expect(place).toMatchObject({ argv: ["main.py"], path: bundle });
  }
});

verifies("app.env.names", "APP_NAME, PROJECT_ID and BUILD_ID are set", async () => {
  const live = service().apps.get("around");
  expect(await result("environment")).toMatchObject({
    APP_NAME: "around",
    PROJECT_ID: service().service.owner.projectId,
    BUILD_ID: live?.version.id,
  });
});

verifies("app.env.hf-home", "HF_HOME is under persistent storage", async () => {
  const { HF_HOME, PERSISTENT_STORAGE } = await result("environment");
  expect(path.relative(PERSISTENT_STORAGE, HF_HOME)).toMatch(/^\w|^\.\w/);
});

verifies(
  "app.storage.env",
  "what is written to $PERSISTENT_STORAGE outlives the replica and is the project's",
  async () => {
    await result("write", { text: "kept" });
    expect((await service().call("around", {}, { functionName: "die" })).status).toBe(502);
    expect(await result("read")).toBe("kept");
    expect(await result("read", {}, "other")).toBe("kept");
  },
);

verifies(
  "replica.environment",
  "a replica sees the allow-list and the app's own names, nothing of ours",
  async () => {
    const own = ["APP_NAME", "PROJECT_ID", "BUILD_ID", "PERSISTENT_STORAGE", "HF_HOME", "PYTHONUNBUFFERED"];
    const { path: python } = await findInterpreter("python3");
    for (const app of ["around", "ordinary"]) {
      const seen = await result("environment", {}, app);
      const known = new Set<string>([
        ...ALLOWED,
        ...Object.keys(NO_GPU_VARIABLES),
        ...own,
        "PWD",
        "LC_CTYPE",
      ]);
      expect(Object.keys(seen).filter((name) => !known.has(name))).toEqual([]);
      expect(JSON.stringify(seen)).not.toContain("must-not-be-seen");
      expect(JSON.stringify(seen)).not.toContain(service().service.owner.token);
      // Its own interpreter comes first.
      expect(seen.PATH).toBe(`${path.dirname(python)}:${process.env["PATH"]}`);
    }
  },
);

test("nothing of the order to start shows in a process's command line", async () => {
  const { pid } = await result("count");
  const { readFileSync } = await import("node:fs");
  expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toMatch(/[0-9a-f]{32}/);
});

test("a module of the app is imported even if Python has one of that name, which the harness needs too", async () => {
  expect(await result("run", { text: "a b" }, "named")).toEqual(["a", "b"]);
});
