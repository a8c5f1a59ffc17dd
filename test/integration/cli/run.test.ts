import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { OnceClient, formOf, tarOf } from "../once/site.ts";
import { Client } from "./client.ts";

const FILE = `
import os
import sys
import time

import helper

print("ran", __name__, sys.argv[1:])


def add(a: int, b: int = 1):
    return {"sum": a + b, "word": helper.WORD, "app": os.environ["APP_NAME"]}


def count(upto):
    for number in range(upto):
        yield number


def countdown():
    return iter([2, 1])


async def wait():
    return "waited"


def fail():
    raise ValueError("no such model")


def slow():
    print("slow begins", flush=True)
    time.sleep(600)
`;

const shared = sharedService();

function clientWithFile(): Client {
  const client = new Client(shared());
  const folder = path.join(client.cwd, "job");
  // A name of more than a tar header holds.
  const deep = path.join(folder, "d".repeat(80), "e".repeat(80));
  mkdirSync(deep, { recursive: true });
  writeFileSync(path.join(deep, "data.txt"), "deep");
  writeFileSync(path.join(folder, "helper.py"), 'WORD = "helped"\n');
  writeFileSync(path.join(folder, "job.py"), FILE);
  return client;
}

verifies("cli.run", "a file runs once with its folder, and what it prints is printed", async () => {
  const client = clientWithFile();
  expect(await client.ok("run", "job/job.py")).toBe("ran __main__ ['']\n");
  expect(await client.ok("run", "job/job.py", "--data", '{"a": 1}')).toBe(
    "ran __main__ ['', '--data', '{\"a\": 1}']\n",
  );
  // Nothing was deployed.
  const [app] = await shared().service.store.apps.listAll();
  expect(app).toMatchObject({ name: "job", currentVersionId: null });
});

verifies("cli.run", "a function of a file is called with the data, whatever kind it is", async () => {
  const client = clientWithFile();
  const call = async (name: string, ...words: string[]) => {
    const stdout = await client.ok("run", `job/job.py::${name}`, "--app", "other", ...words);
    return stdout.split("\n").slice(1).join("\n");
  };
  expect(await call("add", "--data", '{"a": 41}')).toBe('{"sum": 42, "word": "helped", "app": "other"}\n');
  expect(await call("count", "--data", '{"upto": 2}')).toBe("0\n1\n");
  expect(await call("countdown")).toBe("2\n1\n");
  expect(await call("wait")).toBe("waited\n");
  const failed = await client.run("run", "job/job.py::fail");
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("ValueError: no such model")]);
  // The lines of the file are those that its author sees.
  expect(failed.stdout).toContain(`line ${FILE.split("\n").indexOf("def fail():") + 2}, in fail`);
  const missing = await client.run("run", "job/job.py::nope");
  expect([missing.code, missing.stdout]).toEqual([
    1,
    expect.stringContaining(
      "there is no function nope in this file; it has add, count, countdown, wait, fail, slow",
    ),
  ]);
});

verifies("cli.run", "Ctrl-C cancels the run; --detach prints its id", async () => {
  const client = clientWithFile();
  const run = client.start("run", "job/job.py::slow");
  await run.printed(/slow begins/);
  expect(await run.interrupt()).toBe(130);
  const { runs } = shared().service.store;
  const app = await shared().service.store.apps.find({
    projectId: shared().service.owner.projectId,
    name: "job",
  });
  await until("it has ended", async () => {
    const [newest] = await runs.list({ appNumber: app?.number ?? 0, limit: 1 });
    return newest?.errorCode === "cancelled";
  });
  const id = (await client.ok("run", "job/job.py", "--detach")).trim();
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  await new OnceClient(shared(), "job").ended(id);
});

verifies("cli.run", "what is typed wrongly ends with 2, and nothing is sent", async () => {
  const client = clientWithFile();
  for (const [words, message] of [
    [["job/job.py", "--dta", "{}"], "unknown option '--dta'"],
    [["job/job.py", "--function", "add"], "unknown option '--function'"],
    [["job/none.py"], "there is no file job/none.py"],
    [["job"], "is not a Python file"],
    [["job/job.py::not-a-name"], "cannot be the name of a function"],
    [["job/job.py", "--data", "[1]"], "--data must be a JSON object"],
    [["job/job.py", "--app", "Bad_Name"], "choose another with --app"],
  ] as const) {
    const { code, stderr } = await client.run("run", ...words);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  }
});

verifies(
  "run-once.unknown",
  "a member of the query that means nothing is warned of in the run's log",
  async () => {
    const once = new OnceClient(shared(), "odd");
    await once.post("create-run-app");
    const form = formOf(tarOf({ "main.py": "print('hello')" }));
    const { json } = await once.post("run?filename=main.py&function=add&fucntionName=x", form);
    await once.ended(json.runId);
    const lines = shared().logs.filter(({ runId }) => runId === json.runId);
    expect(lines.map(({ text }) => text)).toEqual([
      '[millrace] warning: the query has "function", which means nothing here; known are filename, functionName, imageDigest',
      expect.stringContaining('the query has "fucntionName"'),
      "hello",
    ]);
  },
);
