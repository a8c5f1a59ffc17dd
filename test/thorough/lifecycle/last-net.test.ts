import { writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import {
  Command,
  MILLRACE,
  bootstrap,
  scratchDirectory,
  serve,
  serviceEnvironment,
} from "../../support/command-line.ts";
import { ServedApps, serveApps } from "../../support/serve-apps.ts";
import { INJECTED, REJECT, THROW } from "../../support/throw-at-signal.ts";
import { until } from "../../support/until.ts";
import { isAlive } from "../../support/process-tree.ts";
import { verifies } from "../../verifies.ts";

const SEAM = fileURLToPath(new URL("../../support/throw-at-signal.ts", import.meta.url));
const env = { NODE_OPTIONS: `--import=${SEAM}` };

const MAIN = `
import os
import time

def run():
    return os.getpid()

def slow():
    open(os.path.join(os.environ["PERSISTENT_STORAGE"], "begun"), "w").close()
    while not os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], "enough")):
        time.sleep(0.02)
    return "done"

def quick():
    return "done"

def has_begun():
    return os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], "begun"))
`;
const APPS = { app: { main: MAIN, toml: "[scaling]\nmax_replicas = 2\n" } };

/** The services that came up one after the other, by the line each of them logs. */
function starts({ stderr }: Command): { readonly apiUrl: string }[] {
  return stderr
    .split("\n")
    .filter((line) => line.includes('"millrace is up"'))
    .map((line) => JSON.parse(line) as { apiUrl: string });
}

/** The same data, served anew after a fault. */
async function restarted(served: ServedApps): Promise<ServedApps> {
  const { command, directory, token, url } = served;
  await until("it is up again", () => starts(command).length === 2 || command.child.exitCode !== null);
  const [, again] = starts(command);
  expect([command.child.exitCode, again]).toEqual([null, expect.anything()]);
  return new ServedApps(command, directory, url.replace(/^http:\/\/[^/]+/, again?.apiUrl ?? ""), token);
}

for (const [kind, signal] of [
  ["an exception", THROW],
  ["a rejection", REJECT],
] as const) {
  verifies(
    ["net.logged", "net.restarted"],
    `${kind} that nothing caught is logged whole, ends the service with 70, and it serves again`,
    async () => {
      const served = await serveApps(APPS, { ...env, MILLRACE_ISOLATION: "none" });
      const { pid } = served.command;
      const replica = (await served.call("app", "run")).json.result;
      const { json } = await served.call("app", "quick?async=true");
      process.kill(pid, signal);
      const again = await restarted(served);
      const logged = served.command.stderr.split("\n").find((line) => line.includes(INJECTED)) ?? "{}";
      expect(JSON.parse(logged)).toMatchObject({
        level: 60,
        err: {
          type: "TypeError",
          message: INJECTED,
          code: "EODD",
          stack: expect.stringContaining("throw-at-signal.ts"),
          cause: { message: "the cause of it", stack: expect.any(String) },
        },
      });
      expect(served.command.stderr).toContain("(exit code 70); restarting");
      expect([isAlive(pid), again.command.pid === pid]).toEqual([false, false]);
      expect((await again.call("app", "run")).json.result).not.toBe(replica);
      const headers = { authorization: `Bearer ${again.token}`, prefer: "wait=60" };
      const result = await fetch(`${again.url}/app/runs/${json.run_id}/result`, { headers });
      expect(await result.json()).toMatchObject({ result: "done" });
      expect(await again.command.interrupt()).toBe(0);
    },
  );
}

test("what runs when such an error comes may finish, and new calls are told to come again", async () => {
  const served = await serveApps(APPS, { ...env, MILLRACE_ISOLATION: "none" });
  const call = served.call("app", "slow");
  await until("it runs", async () => (await served.call("app", "has_begun")).json.result === true);
  process.kill(served.command.pid, THROW);
  await served.command.printed(new RegExp(INJECTED));
  // Refused in words while it drains, and by the kernel once it has closed.
  const refused = await served.call("app", "run").catch(() => null);
  expect(refused && [refused.status, refused.json.code]).toBeOneOf([null, [503, "draining"]]);
  const [project = ""] = served.url.split("/").slice(-1);
  writeFileSync(path.join(served.directory, "data/storage", project, "enough"), "");
  expect(await call).toMatchObject({ status: 200, json: { result: "done" } });
  const again = await restarted(served);
  expect(await again.command.interrupt()).toBe(0);
});

describe("the parent", () => {
  verifies("net.signals", "a signal to it alone stops the service in order", async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const { command } = await serve(path.join(scratchDirectory(), "data"), { MILLRACE_ISOLATION: "none" });
      const { pid, group } = command;
      expect(pid).not.toBe(group);
      process.kill(group, signal);
      expect([signal, await command.exited, isAlive(pid)]).toEqual([signal, 0, false]);
    }
  });

  verifies("net.signals", "a service that is killed is not started again, and its end is told", async () => {
    const { command } = await serve(path.join(scratchDirectory(), "data"), { MILLRACE_ISOLATION: "none" });
    process.kill(command.pid, "SIGKILL");
    expect(await command.exited).toBe(137);
    expect(starts(command)).toHaveLength(1);
  });

  verifies("net.orphan", "kill -9 of it ends the service too, and the next one starts at once", async () => {
    const served = await serveApps(APPS, { MILLRACE_ISOLATION: "none" });
    const { pid, group } = served.command;
    const replica = (await served.call("app", "run")).json.result as number;
    process.kill(group, "SIGKILL");
    const dataDir = `${served.directory}/data`;
    const next = new Command(MILLRACE, ["serve"], { env: serviceEnvironment(dataDir) });
    await next.printed(/"millrace is up"/);
    expect(isAlive(pid)).toBe(false);
    await until("its replica is gone", () => !isAlive(replica));
    expect((await bootstrap(dataDir)).fields.token).toBe(served.token);
    expect(await next.interrupt()).toBe(0);
    await served.command.exited;
  });
});
