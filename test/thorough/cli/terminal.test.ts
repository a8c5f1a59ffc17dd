import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { MILLRACE, scratchDirectory } from "../../support/command-line.ts";
import { testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { CTRL_C, Terminal } from "../../support/terminal.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "../../integration/cli/client.ts";
import { atTerminal } from "../../integration/cli/terminal.ts";

const MAIN = `
import time


def run():
    return "hello"


def slow():
    time.sleep(600)
`;

const EDIT = `    print(f"greeted {name}", flush=True)
    return {"message": f"Hello, {name}!"}`;

const shared = sharedService({ hello: { main: MAIN } });

test("tables have colours at a terminal and are cut to its width; NO_COLOR takes the colours away", async () => {
  const client = new Client(shared());
  await shared().call("hello");
  const wide = await atTerminal(client, ["apps", "list"]);
  expect(wide.code).toBe(0);
  expect(wide.screen).toContain("\u{1b}[32mready\u{1b}[39m");
  const narrow = await atTerminal(client, ["apps", "list"], { columns: 20 });
  expect(narrow.screen).toMatch(/^hello  ready {3}.{4}…$/m);
  const plain = new Client(null, { ...client.env, NO_COLOR: "1" });
  expect((await atTerminal(plain, ["apps", "list"])).raw).not.toContain("\u{1b}[");
});

test("what cannot be undone is asked for, and only a yes does it", async () => {
  const client = new Client(shared());
  await shared().deploy("doomed", { main: MAIN });
  const apps = async (): Promise<string[]> =>
    (await shared().service.store.apps.listAll()).map(({ name }) => name);
  const question = /and all its versions\? \[y\/N\]/;
  const refused = await atTerminal(client, ["apps", "delete", "doomed"], {
    steps: [{ when: question, type: "\r" }],
  });
  expect(refused.code).toBe(1);
  expect(refused.screen).toContain("millrace: nothing was changed");
  const left = await atTerminal(client, ["apps", "delete", "doomed"], {
    steps: [{ when: question, type: CTRL_C }],
  });
  expect(left.code).toBe(130);
  expect(await apps()).toContain("doomed");
  const agreed = await atTerminal(client, ["apps", "delete", "doomed"], {
    steps: [{ when: question, type: "y\r" }],
  });
  expect(agreed.code).toBe(0);
  expect(await apps()).not.toContain("doomed");
});

test("who waits sees that something is under way, and the run's id beside its result", async () => {
  const client = new Client(shared());
  const call = await atTerminal(client, ["call", "hello"]);
  // oxlint-disable-next-line no-control-regex
  expect(call.screen).toMatch(/^hello\n\u{1b}\[2mrun [0-9a-f-]{36}, [\d.]+ ms\u{1b}\[22m\n$/u);
  const waited = await atTerminal(client, ["call", "hello", "slow"], {
    steps: [{ when: /⠹ hello\/slow/, type: CTRL_C }],
  });
  expect([waited.code, waited.screen.trim()]).toEqual([130, ""]);
});

/** A shell as a newcomer sits at, `millrace` on its path, in an empty folder. */
async function newcomer(cwd: string): Promise<Terminal> {
  // The shell reads this as it starts. Its own prompt for root is another one.
  const settings = path.join(cwd, ".shrc");
  writeFileSync(settings, "PS1='$ '\n");
  const env = {
    PATH: `${path.dirname(MILLRACE)}:${process.env["PATH"]}`,
    ENV: settings,
    XDG_CONFIG_HOME: path.join(cwd, "config"),
  };
  const shell = new Terminal(["sh", "-i"], { cwd, env });
  await shell.shows(/\$ /);
  return shell;
}

/** What stands on the screen after the last `$ millrace …` that was typed, with what differs each time named. */
function lastScreen({ screen }: Terminal): string {
  return screen
    .slice(screen.lastIndexOf("$ millrace "))
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "RUN")
    .replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, "URL")
    .replaceAll(/\bp-[a-z0-9]{8}\b/g, "PROJECT")
    .replaceAll(/[\d.]+ (?:ms|s)\b/g, "TIME");
}

const DEPLOYED = `$ millrace deploy hi
Create a new app hi in PROJECT on URL? [y/N] y
hi: 4 files, 8.0 MB
upload  8.0 MB received
extract 4 files, 8.0 MB
check   starting one replica to check that it works…
check   ready after TIME: run, count
switch  switching calls to version 1…
switch  version 1 is live

✓ hi is deployed, after TIME.
  URL/v4/PROJECT/hi/run

  millrace call hi
  curl -X POST 'URL/v4/PROJECT/hi/run' -H "Authorization: Bearer $(cat .millrace/owner-token)" -H 'Content-Type: application/json' -d '{}'
$`;
const PROMPT = /\n\$ $/;
const GREETING = `{
  "message": "Good day, Ada!"
}
run RUN, TIME
$`;

verifies(
  "cli.terminal",
  "a newcomer begins an app, edits it under dev, deploys it, calls it in every way and follows its log",
  async () => {
    const cwd = scratchDirectory();
    const shell = await newcomer(cwd);
    const enter = async (line: string): Promise<string> => {
      shell.type(`${line}\r`);
      await shell.shows(PROMPT);
      return lastScreen(shell);
    };
    expect(await enter("millrace init hi")).toBe(`$ millrace init hi
hi is in hi: main.py, millrace.toml, README.md

  millrace dev hi       serve it locally, and reload it on every save
  millrace deploy hi    deploy it to a service
$`);

    shell.type("millrace dev hi\r");
    await shell.shows(/serves +ready after/);
    const [, url = "", token = ""] = await shell.shows(
      /curl -X POST '(\S+)' -H "Authorization: Bearer (\S+)"/,
    );
    const main = path.join(cwd, "hi", "main.py");
    const edited = readFileSync(main, "utf8")
      .replace('    return {"message": f"Hello, {name}!"}', EDIT)
      .replace("Hello", "Good day");
    writeFileSync(main, edited);
    await until("the save is served", async () => (await greet(url, token)).includes("Good day"));
    await shell.shows(/serves +saved changes after/);
    await greet(url, token);
    await shell.shows(/ 200 +run /);
    shell.type(CTRL_C);
    await shell.shows(PROMPT);

    // The service of this folder takes its time with what is uploaded.
    const taking = Promise.withResolvers<void>();
    const dataDir = path.join(cwd, ".millrace");
    await testService({}, { dataDir }, { aroundStore: (store) => slowAtUploads(store, taking.promise) });
    writeFileSync(path.join(cwd, "hi", "weights.bin"), randomBytes(8_000_000));
    shell.type("millrace deploy hi\r");
    await shell.shows(/Create a new app hi in p-\w+ on http:\S+ \[y\/N\] $/);
    shell.type("y\r");
    await shell.shows(/hi: 4 files, 8\.0 MB/);
    await shell.shows(/█+░* \d+% {2}\d\S+ [MK]?B of 8\.\d MB/);
    taking.resolve();
    await shell.shows(/\n(?:check|build|start)\w* +\S/);
    await shell.shows(/✓ hi is deployed, after/);
    await shell.shows(PROMPT);
    // The bar leaves no trace of itself.
    expect(lastScreen(shell)).toBe(DEPLOYED);

    expect(await enter("millrace call hi name=Ada")).toBe(`$ millrace call hi name=Ada\n${GREETING}`);
    expect(await enter("millrace call hi --async --wait name=Ada")).toBe(
      `$ millrace call hi --async --wait name=Ada\n${GREETING}`,
    );
    expect(await enter("millrace call hi count --stream upto=3")).toBe(
      "$ millrace call hi count --stream upto=3\nNumber 1\nNumber 2\nNumber 3\nrun RUN, 3 messages\n$",
    );
    const log = await newcomer(cwd);
    log.type("millrace logs hi --follow\r");
    await log.shows(/\d\d:\d\d:\d\d\.\d{3} {2}greeted Ada/);
    await enter("millrace call hi name=Eve");
    await log.shows(/\d\d:\d\d:\d\d\.\d{3} {2}greeted Eve/);
    log.type(CTRL_C);
    await log.shows(PROMPT);
    log.type("exit $?\r");
    shell.type("exit\r");
    expect([await log.exited, await shell.exited]).toEqual([130, 0]);
  },
);

/** A store that has what is uploaded wait. */
function slowAtUploads(store: Store, taking: Promise<void>): Store {
  const find: Store["builds"]["find"] = async (id) => {
    await taking;
    return await store.builds.find(id);
  };
  return { ...store, builds: { ...store.builds, find } };
}

async function greet(url: string, token: string): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return await (await fetch(url, { method: "POST", headers, body: "{}" })).text();
}

test("init, deploy and call, as somebody new types them", async () => {
  const test = shared();
  const client = new Client(test);
  expect((await atTerminal(client, ["init", "hi"])).code).toBe(0);
  const deploy = await atTerminal(client, ["deploy", "hi"], { steps: [{ when: /\[y\/N\]/, type: "y\r" }] });
  expect(deploy.code).toBe(0);
  expect(deploy.screen).toMatch(/Create a new app hi in p-\w+ on http:\S+ \[y\/N\] y/);
  expect(deploy.screen).toContain("hi is deployed");
  // Ready to paste.
  expect(deploy.screen).toContain("Authorization: Bearer $MILLRACE_TOKEN");
  // It is there now: nobody is asked again.
  expect((await atTerminal(client, ["deploy", "hi"])).code).toBe(0);
  expect((await atTerminal(client, ["call", "hi", "name=Ada"])).screen).toContain('"message": "Hello, Ada!"');
});
