import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import {
  Command,
  groupMembers,
  repositoryCopy,
  run,
  scratchDirectory,
  serviceEnvironment,
} from "../../support/command-line.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const CURL =
  /^curl (?:-N )?-X POST '(\S+)\/v4\/(p-[a-z0-9]{8})\/([a-z]+)\/run(?:\?async=true)?' \\\n(?:  .* \\\n)*  -d '.*'$/gm;

/** The commands a start printed, by app. */
function printedCurls(stdout: string): Map<string, string> {
  return new Map([...stdout.matchAll(CURL)].map(([command, , , app = ""]) => [app, command]));
}

/** Runs a command exactly as it was printed; curl's own clock tells the seconds. */
async function paste(command = ""): Promise<{ body: string; seconds: number }> {
  const { code, stdout, stderr } = await run("sh", ["-c", `${command} -sS -w '\\n%{time_total}'`]);
  expect([code, stderr]).toEqual([0, ""]);
  const [body = "", seconds = ""] = stdout.split("\n");
  return { body, seconds: Number(seconds) };
}

async function npmStart(dataDir: string, env: Record<string, string> = {}): Promise<Command> {
  const command = new Command("npm", ["start"], { env: { ...serviceEnvironment(dataDir), ...env } });
  await command.printed(/Ctrl-C stops it/);
  return command;
}

function addressOf(command: Command, what: "apps" | "management"): string {
  return new RegExp(`^ +${what} +(http://\\S+)$`, "m").exec(command.stdout)?.[1] ?? "";
}

verifies(
  [
    "start.listeners",
    "start.examples",
    "start.curl.sync",
    "start.curl.async",
    "start.curl.stream",
    "start.addresses-differ",
    "show.first-answer",
  ],
  "npm start brings up two listeners and prints calls that answer when pasted, within a second",
  async () => {
    const command = await npmStart(path.join(scratchDirectory(), "data"));
    const [apps, management] = [addressOf(command, "apps"), addressOf(command, "management")];
    expect(apps).not.toBe(management);
    expect((await fetch(`${management}/readyz`)).status).toBe(200);
    expect((await fetch(apps)).status).toBe(404);

    const curls = printedCurls(command.stdout);
    expect([...curls.keys()].toSorted()).toEqual(["counter", "hello", "spelling"]);
    const hello = await paste(curls.get("hello"));
    expect(hello.body).toMatch(
      /^\{"run_id":"[0-9a-f-]{36}","result":\{"message":"Hello, Ada!"\},"run_time_ms":[\d.]+\}$/,
    );
    const spelling = await paste(curls.get("spelling"));
    expect(spelling.body).toMatch(/^\{"run_id":"[0-9a-f-]{36}"\}$/);
    const { run_id: runId } = JSON.parse(spelling.body) as { run_id: string };
    const [, project = ""] = /\/v4\/(p-[a-z0-9]+)\//.exec(command.stdout) ?? [];
    const [, token = ""] = /Bearer (\S+)'/.exec(command.stdout) ?? [];
    const result = await fetch(`${apps}/v4/${project}/spelling/runs/${runId}/result`, {
      headers: { authorization: `Bearer ${token}`, prefer: "wait=30" },
    });
    expect(await result.json()).toMatchObject({ result: { word: "adress", nearest: expect.any(Array) } });
    // The better of the two, because the machine may be busy with other tests.
    expect(Math.min(hello.seconds, spelling.seconds)).toBeLessThan(1);
    const counter = await run("sh", ["-c", `${curls.get("counter")} -sS`]);
    expect([counter.code, counter.stderr]).toEqual([0, ""]);
    expect(counter.stdout).toBe("data: Number 0 \n\ndata: Number 1 \n\ndata: Number 2 \n\n");
    await command.printed(/^\[counter\] counting 2$/m);
    await command.interrupt();
  },
);

verifies(
  "start.curl.every-start",
  "the calls are printed at every start, with the same project and token",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const [first, second] = [await startAndStop(dataDir), await startAndStop(dataDir)];
    expect(first.token).toMatch(/^ey/);
    expect(second).toEqual(first);
    expect(readFileSync(path.join(dataDir, "owner-token"), "utf8").trim()).toBe(first.token);
  },
);

async function startAndStop(dataDir: string): Promise<{ project: string; token: string }> {
  const command = await npmStart(dataDir);
  const hello = printedCurls(command.stdout).get("hello") ?? "";
  expect((await paste(hello)).body).toContain("Hello, Ada!");
  await command.interrupt();
  return {
    project: /\/v4\/(p-[a-z0-9]+)\//.exec(hello)?.[1] ?? "",
    token: /Bearer (\S+)'/.exec(hello)?.[1] ?? "",
  };
}

verifies("start.ctrl-c", "Ctrl-C ends npm start and every process below it, in mid-call too", async () => {
  const directory = scratchDirectory();
  const command = await npmStart(path.join(directory, "data"), { MILLRACE_SHUTDOWN_GRACE: "0s" });
  const apps = addressOf(command, "apps");
  await paste(printedCurls(command.stdout).get("hello"));
  const slow = (printedCurls(command.stdout).get("counter") ?? "").replace(
    '"upper_range": 3',
    '"upper_range": 500',
  );
  const caller = new Command("sh", ["-c", slow]);
  await caller.printed(/^data: Number 0 $/m);

  await command.interrupt();
  expect(command.stdout).toContain("Stopping…");
  await caller.exited;
  expect(caller.stdout).toMatch(/^event: error\ndata: \{.*"code":"draining"/m);
  await until("the group has ended", () => groupMembers(command.pid).length === 0);
  await assertNothingLeft(directory);
  await expect(fetch(apps)).rejects.toThrow("fetch failed");
});

test("an example that cannot be deployed is told with the reason, and the others serve", async () => {
  const copy = repositoryCopy();
  mkdirSync(path.join(copy, "examples/broken"));
  writeFileSync(path.join(copy, "examples/broken/millrace.toml"), "[scaling]\ncooldown = -1\n");
  const env = serviceEnvironment(path.join(copy, "data"));
  const command = new Command(path.join(copy, "bin/millrace"), ["start"], { cwd: copy, env });
  await command.printed(/Ctrl-C stops it/);
  expect(command.stderr).toMatch(/^warning: the example broken cannot be deployed here: /m);
  expect(command.stderr).toContain("scaling.cooldown must be a duration from 0s to 1h, got -1");
  const [, url = "", token = ""] = /'(\S+\/hello\/run)'[^]*?Bearer (\S+)'/.exec(command.stdout) ?? [];
  const answer = await fetch(url, { method: "POST", headers: { authorization: `Bearer ${token}` } });
  expect(answer.status).toBe(200);
  await command.interrupt();
});
