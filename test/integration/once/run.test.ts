import { existsSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { processesIn } from "../../support/leak-check.ts";
import { type TestService, testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { OnceClient, formOf, tarOf } from "./site.ts";

const ARGUMENTS = `import os, sys
print(sys.argv)
print(open("data/words.txt").read())
print(os.environ["APP_NAME"], os.environ["PROJECT_ID"] in os.getcwd(), sorted(os.listdir(".")))
`;

const GRACE_SECONDS = 1_000;
const SLOW = { main: "def run(): pass", toml: `[scaling]\nresponse_grace_period = ${GRACE_SECONDS}\n` };

const clock = new SkippingClock();
/** Each test runs files in an app of its own. */
const shared = sharedService({ slow: SLOW }, {}, { clock });

/** Waits until the run has printed a line. */
async function printed({ logs }: TestService, runId: string, text: string): Promise<void> {
  await until(`${runId} prints ${text}`, () =>
    logs.some((line) => line.runId === runId && line.text === text),
  );
}

function foldersOf({ settings }: TestService): string[] {
  const dir = path.join(settings.dataDir, "once");
  return existsSync(dir) ? readdirSync(dir) : [];
}

verifies(
  ["deploy.once", "run-once.app", "run-once.run", "run-once.status"],
  "a file runs once with its arguments, is logged and recorded, and is gone",
  async () => {
    const service = shared();
    const client = new OnceClient(service, "scripts");
    expect((await client.post("create-run-app?region=us-east-1")).json).toEqual({ id: client.appId });
    expect((await client.post("create-run-app")).json).toEqual({ id: client.appId });
    const form = formOf(
      tarOf({ "main.py": ARGUMENTS, "data/words.txt": "some words" }),
      '{"n": 9007199254740993}',
      service.service.owner.projectId,
    );
    const query = "filename=main.py&functionName=work&region=us-east-1&cpu=2.0&appName=scripts";
    const answer = await client.post(`run?${query}`, form);
    expect([answer.status, Object.keys(answer.json)]).toEqual([200, ["runId"]]);
    const { runId } = answer.json;
    const run = await client.ended(runId);
    expect(run).toMatchObject({
      id: runId,
      modelId: client.appId,
      functionName: "main.py::work",
      async: false,
      status: "success",
      statusCode: 200,
      error: null,
      webhookStatus: "none",
    });
    expect(run.runtimeMs).toBeGreaterThan(0);
    expect(await client.lines(runId)).toEqual([
      `stdout: ['main.py', 'work', '--data', '{"n": 9007199254740993}']`,
      "stdout: some words",
      "stdout: scripts False ['data', 'main.py']",
    ]);
    expect(foldersOf(service)).toEqual([]);
  },
);

verifies("hosted.file-run", "without a function and without data the file runs alone", async () => {
  const client = new OnceClient(shared(), "plain");
  const runId = await client.run("filename=./jobs/-x.py", {
    "jobs/-x.py": "import sys\nprint(sys.argv[1:])",
  });
  expect(await client.ended(runId)).toMatchObject({ status: "success", functionName: "jobs/-x.py" });
  expect(await client.lines(runId)).toEqual(["stdout: ['']"]);
  const unnamed = await client.run(
    "filename=a.py&functionName=",
    { "a.py": "import sys\nprint(sys.argv)" },
    "{}",
  );
  await client.ended(unnamed);
  expect(await client.lines(unnamed)).toEqual(["stdout: ['a.py', '', '--data', '{}']"]);
  const dash = await client.run("filename=-x.py", { "-x.py": "print('dash')" }, "null");
  await client.ended(dash);
  expect(await client.lines(dash)).toEqual(["stdout: dash"]);
});

test("what stands behind the archive's end is left alone, and the answer comes", async () => {
  const client = new OnceClient(shared(), "padded");
  await client.post("create-run-app");
  const padded = Uint8Array.from([...tarOf({ "main.py": "print(1)" }), ...new Uint8Array(1024 * 1024)]);
  const { status, json } = await client.post("run?filename=main.py", formOf(padded, "{}"));
  expect(status).toBe(200);
  expect((await client.ended(json.runId)).status).toBe("success");
  const refused = await client.post("run?filename=main.py", formOf(padded.fill(1), "{}"));
  expect(refused.json.code).toBe("upload_invalid");
});

verifies("run-once.status", "a file that fails is a failed run that says why", async () => {
  const client = new OnceClient(shared(), "failing");
  const raises = await client.run("filename=main.py", {
    "main.py": "print('so far')\nraise ValueError('no such model')",
  });
  expect(await client.ended(raises)).toMatchObject({
    status: "failed",
    statusCode: 500,
    error: { code: "app_error", message: "ValueError: no such model" },
  });
  expect(await client.lines(raises)).toContain("stderr: ValueError: no such model");
  const exits = await client.run("filename=main.py", { "main.py": "import sys; sys.exit(3)" });
  expect((await client.ended(exits)).error).toEqual({ code: "app_error", message: "exit code 3" });
  const dies = await client.run("filename=main.py", { "main.py": "import os; os.kill(os.getpid(), 9)" });
  expect(await client.ended(dies)).toMatchObject({
    status: "failed",
    statusCode: 502,
    error: { code: "app_crashed", message: "killed by SIGKILL" },
  });
});

test("secrets and storage are an app's, and clients find the data where their main block looks", async () => {
  const service = shared();
  const client = new OnceClient(service, "secretive");
  await client.post("create-run-app");
  const { baseUrl, owner } = service.service;
  const replace = async (place: string, map: object): Promise<void> => {
    const { status } = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/${place}`, {
      method: "PATCH",
      headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
      body: JSON.stringify(map),
    });
    expect(status).toBe(200);
  };
  await replace("secrets", { SHARED: "project", BOTH: "project" });
  await replace(`apps/${client.appId}/secrets`, { BOTH: "app" });
  const main = `import os
print(os.environ["SHARED"], os.environ["BOTH"], os.environ["RUN_ID"], os.environ["CEREBRIUM_INPUT_DATA"])
open(os.path.join(os.environ["PERSISTENT_STORAGE"], "made.txt"), "w").close()
print([name for name in os.environ if name.startswith("MILLRACE")])
`;
  const runId = await client.run("filename=main.py", { "main.py": main }, "[1]");
  expect((await client.ended(runId)).status).toBe("success");
  expect(await client.lines(runId)).toEqual([`stdout: project app ${runId} [1]`, "stdout: []"]);
  expect(existsSync(path.join(service.settings.dataDir, "storage", owner.projectId, "made.txt"))).toBe(true);
});

const DAEMON = `import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("ready", flush=True)
`;
/** Ends when there is a file in the project's storage. */
const GATED = `import os, time
while not os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], "go")):
    time.sleep(0.01)
`;

test("what a file leaves running ends with it", async () => {
  const service = shared();
  const client = new OnceClient(service, "daemons");
  const runId = await client.run("filename=main.py", { "main.py": DAEMON });
  expect((await client.ended(runId)).status).toBe("success");
  expect(processesIn(path.join(service.settings.dataDir, "once"))).toEqual([]);
});

test("a file that takes longer than its app's grace period is ended, with all it started", async () => {
  const service = shared();
  const client = new OnceClient(service, "slow");
  const runId = await client.run("filename=main.py", { "main.py": `${DAEMON}\ntime.sleep(600)` });
  await printed(service, runId, "ready");
  clock.skip(GRACE_SECONDS * 1000 - 60_000);
  expect((await client.find(runId)).status).toBe("running");
  clock.skip(60_000);
  expect(await client.ended(runId)).toMatchObject({
    status: "failed",
    statusCode: 504,
    error: { code: "timed_out" },
  });
  expect(processesIn(path.join(service.settings.dataDir, "once"))).toEqual([]);
  expect(foldersOf(service)).toEqual([]);
});

verifies(
  "run-once.cancel",
  "a file that is cancelled ends with all it started, and others go on",
  async () => {
    const service = shared();
    const client = new OnceClient(service, "cancelled");
    const [runId, other] = [
      await client.run("filename=main.py", { "main.py": `${DAEMON}\ntime.sleep(600)` }),
      await client.run("filename=main.py", { "main.py": GATED }),
    ];
    await printed(service, runId, "ready");
    const cancel = async () => await service.ofRun("cancelled", runId, "cancel", { method: "POST" });
    expect((await cancel()).status).toBe(202);
    expect(await client.ended(runId)).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    expect((await client.find(other)).status).toBe("running");
    const storage = path.join(service.settings.dataDir, "storage", service.service.owner.projectId);
    writeFileSync(path.join(storage, "go"), "");
    expect((await cancel()).json.code).toBe("run_finished");
    expect((await client.ended(other)).status).toBe("success");
    expect([processesIn(path.join(service.settings.dataDir, "once")), foldersOf(service)]).toEqual([[], []]);
  },
);

test("a service that stops ends the files that run, and says so in their records", async () => {
  const service = await testService({}, { shutdownGrace: "0s" });
  const client = new OnceClient(service, "stopping");
  const runId = await client.run("filename=main.py", {
    "main.py": "import time\nprint('on', flush=True)\ntime.sleep(600)",
  });
  await printed(service, runId, "on");
  expect((await client.find(runId)).status).toBe("running");
  const { number: appNumber } = (await service.service.store.apps.listAll())[0]!;
  await service.service.stop();
  const store = await openStore({ ...service.settings, databaseUrl: null });
  const run = await store.runs.find({ appNumber, id: runId });
  await store.close();
  expect(run).toMatchObject({ state: "failure", errorCode: "interrupted", statusCode: 503 });
});
