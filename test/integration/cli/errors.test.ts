import type { Command } from "commander";
import { expect, test } from "vitest";
import { ALL, buildProgram } from "../../../src/cli/program.ts";
import { MILLRACE, run } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { CASES, type Ended, expectFailure, RUN, WORDS } from "./asking-commands.ts";
import { Client } from "./client.ts";

const shared = sharedService({ hello: { main: "def run():\n    return 'hello'\n" } });

/** Runs them in one process: that each ends by itself is seen where each has its own. */
async function runTogether(client: Client, cases: typeof CASES): Promise<Ended[]> {
  const ran = await client.runAll(cases.map(({ args }) => args));
  expect(ran).toHaveLength(cases.length);
  return cases.map(({ name }, place) => ({ name, ran: ran[place]! }));
}

test("every command that asks a service is in the table of this test", async () => {
  const asks = (command: Command): boolean => command.options.some(({ long }) => long === "--project");
  const leaves = (command: Command, words: readonly string[]): string[] =>
    command.commands.length === 0
      ? asks(command) && words[0] !== "login"
        ? [words.join(" ")]
        : []
      : command.commands.flatMap((below) => leaves(below, [...words, below.name()]));
  expect(leaves(await buildProgram(ALL), []).toSorted()).toEqual(
    [...Object.keys(WORDS), "deploy"].toSorted(),
  );
});

verifies(
  "cli.errors",
  "without a service every command says where none answers, and how to get one",
  async () => {
    const client = new Client(null, {
      MILLRACE_URL: "http://127.0.0.1:1",
      MILLRACE_TOKEN: "t",
      MILLRACE_PROJECT: "p-a",
      MILLRACE_API_URL: "http://127.0.0.1:1",
    });
    for (const ended of await runTogether(client, CASES)) {
      expectFailure(ended, /: millrace: no service answers at http:\/\/127\.0\.0\.1:1: connection refused\n/);
    }
  },
);

verifies(
  "cli.errors",
  "an app that is not there is named, with the command that lists those there are",
  async () => {
    const ofApp = CASES.filter(({ args }) => args.includes("nosuch"));
    for (const ended of await runTogether(new Client(shared()), ofApp)) {
      expectFailure(ended, /: millrace: the project p-\w+ has no app "nosuch"\n {2}→ millrace apps list /);
    }
  },
);

test("no token at all, a run, function or command that is not there, and a word too many", async () => {
  const client = new Client(shared());
  const nobody = new Client(shared(), { MILLRACE_TOKEN: "" });
  for (const [ran, code, message] of [
    [await nobody.run("apps", "list"), 1, /no token for http/],
    [
      await client.run("runs", "get", "hello", RUN),
      1,
      /The app has no such run\n {2}→ millrace runs list hello/,
    ],
    [await client.run("call", "hello", "nosuch"), 1, /The app has no such function/],
    [await client.run("call", "hello", "x=1"), 2, /x is unknown/],
    [await client.run("apps", "get", "Not A Name"), 2, /cannot be the name of an app/],
    [await client.run("aps"), 2, /unknown command 'aps'.*\n.*apps/],
    [await client.run("apps", "list", "extra"), 2, /too many arguments/],
    [await client.run("apps", "list", "--nonsense"), 2, /unknown option '--nonsense'/],
    [await client.run("completion", "csh"), 2, /no completion for "csh"/],
    [await client.run("apps", "list", "--url", "ftp://x"), 2, /is not the address of a service/],
  ] as const) {
    expect([ran.code, ran.stdout]).toEqual([code, ""]);
    expect(ran.stderr).toMatch(message);
    expect(ran.stderr).not.toMatch(/^\s+at /m);
  }
});

verifies(
  "cli.json",
  "with --json a failure is one document on stdout, and nothing else is said",
  async () => {
    const client = new Client(shared());
    for (const [args, code, error] of [
      [["call", "nosuch"], 1, { code: "app_not_found", hint: expect.stringContaining("apps list") }],
      [["call", "hello", "x=1"], 2, { code: "invalid_arguments", message: "x is unknown" }],
      [["runs", "get"], 2, { code: "usage", message: "missing required argument 'app'" }],
      [["apps", "delete", "hello"], 2, { code: "usage", hint: expect.stringContaining("--yes") }],
      [["deploy", "nowhere"], 2, { code: "usage" }],
      [["bootstrap", "--max-runs", "0"], 2, { code: "config" }],
    ] as const) {
      const ran = await client.run(...args, "--json");
      expect([ran.code, ran.stderr]).toEqual([code, ""]);
      expect(JSON.parse(ran.stdout)).toEqual({ error: expect.objectContaining(error) });
    }
  },
);

verifies("cli.json", "colour, notes and bars are for a terminal: nothing of them is in a pipe", async () => {
  const client = new Client(shared());
  for (const args of [["apps", "list"], ["call", "hello"], ["whoami"], ["call", "hello", "--async"]]) {
    // ok() fails when anything is said on stderr.
    expect(await client.ok(...args)).not.toContain("\u{1b}");
  }
});

test("a reader that has seen enough ends the command quietly", async () => {
  const client = new Client(shared());
  const { code, stderr } = await run("sh", ["-c", '"$0" serve --help | head -1', MILLRACE], client);
  expect([code, stderr]).toEqual([0, ""]);
});
