import { expect, test } from "vitest";
import { testService } from "../../support/service.ts";
import { Client } from "./client.ts";
import { atTerminal } from "./terminal.ts";

const MAIN = `
import time


def run():
    return "hello"


def slow():
    time.sleep(600)
`;

test("tables have colours at a terminal and are cut to its width; NO_COLOR takes the colours away", async () => {
  const client = new Client(await testService({ hello: { main: MAIN } }));
  await client.ok("call", "hello");
  const wide = await atTerminal(client, ["apps", "list"]);
  expect(wide.code).toBe(0);
  expect(wide.screen).toContain("\u{1b}[32mready\u{1b}[39m");
  const narrow = await atTerminal(client, ["apps", "list"], { columns: 20 });
  expect(narrow.screen).toMatch(/^hello  ready {3}.{4}…$/m);
  const plain = new Client(null, { ...client.env, NO_COLOR: "1" });
  expect((await atTerminal(plain, ["apps", "list"])).raw).not.toContain("\u{1b}[");
});

test("what cannot be undone is asked for, and only a yes does it", async () => {
  const client = new Client(await testService({ hello: { main: MAIN } }));
  const question = "with its versions? [y/N]";
  const refused = await atTerminal(client, ["apps", "delete", "hello"], {
    steps: [{ when: question, type: "\r" }],
  });
  expect(refused.code).toBe(1);
  expect(refused.screen).toContain("millrace: nothing was changed");
  const left = await atTerminal(client, ["apps", "delete", "hello"], {
    steps: [{ when: question, type: "\u{3}" }],
  });
  expect(left.code).toBe(130);
  expect(await client.json("apps", "list")).toHaveLength(1);
  const agreed = await atTerminal(client, ["apps", "delete", "hello"], {
    steps: [{ when: question, type: "y\r" }],
  });
  expect(agreed.code).toBe(0);
  expect(await client.json("apps", "list")).toEqual([]);
});

test("who waits sees that something is under way, and the run's id beside its result", async () => {
  const client = new Client(await testService({ hello: { main: MAIN } }));
  const call = await atTerminal(client, ["call", "hello"]);
  // oxlint-disable-next-line no-control-regex
  expect(call.screen).toMatch(/^hello\n\u{1b}\[2mrun [0-9a-f-]{36}, [\d.]+ ms\u{1b}\[22m\n$/u);
  const waited = await atTerminal(client, ["call", "hello", "slow"], {
    steps: [{ when: "⠹ hello/slow", type: "\u{3}" }],
  });
  expect([waited.code, waited.screen.trim()]).toEqual([130, ""]);
});

test("init, deploy and call, as somebody new types them", async () => {
  const test = await testService();
  const client = new Client(test);
  expect((await atTerminal(client, ["init", "hi"])).code).toBe(0);
  const deploy = await atTerminal(client, ["deploy", "hi"], { steps: [{ when: "[y/N]", type: "y\r" }] });
  expect(deploy.code).toBe(0);
  expect(deploy.screen).toMatch(/Make a new app hi in p-\w+ on http:\S+ \[y\/N\] y/);
  expect(deploy.screen).toContain("hi is deployed");
  // Ready to paste.
  expect(deploy.screen).toContain(`Authorization: Bearer ${test.service.owner.token}`);
  // It is there now: nobody is asked again.
  expect((await atTerminal(client, ["deploy", "hi"])).code).toBe(0);
  expect((await atTerminal(client, ["call", "hi", "name=Ada"])).screen).toContain('"message": "Hello, Ada!"');
});
