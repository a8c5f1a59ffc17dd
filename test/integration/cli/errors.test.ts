import type { Command } from "commander";
import { expect, test } from "vitest";
import { ALL, buildProgram } from "../../../src/cli/program.ts";
import { MILLRACE, run } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";
import type { Ran } from "./client.ts";

const shared = sharedService({ hello: { main: "def run():\n    return 'hello'\n" } });
const RUN = "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa";

/** What is typed after a command so that it gets as far as the service; `nosuch` is an app. */
const WORDS: Record<string, readonly string[]> = {
  call: ["nosuch"],
  "apps list": [],
  "apps get": ["nosuch"],
  "apps scale": ["nosuch", "--min", "1"],
  "apps rollback": ["nosuch"],
  "apps delete": ["nosuch", "--yes"],
  "builds list": ["nosuch"],
  "builds logs": ["nosuch"],
  "builds cancel": ["nosuch"],
  "runs list": ["nosuch"],
  "runs get": ["nosuch", RUN],
  "runs tail": ["nosuch", RUN],
  "runs cancel": ["nosuch", RUN],
  logs: ["nosuch"],
  "containers list": ["nosuch"],
  "secrets list": ["--app", "nosuch"],
  "secrets set": ["A=1", "--app", "nosuch"],
  "secrets unset": ["A", "--app", "nosuch"],
  "files ls": [],
  "files cp": ["/etc/hostname"],
  "files download": ["a"],
  "files rm": ["a"],
  "webhook deliveries": [],
  "webhook redeliver": [RUN],
  bench: ["--app", "nosuch"],
  "nodes list": [],
  "nodes drain": ["nobody"],
  "members list": [],
  "members invite": ["ada@example.com"],
  "members invitations": [],
  "members revoke": ["ada@example.com"],
  "members remove": ["ada@example.com", "--yes"],
  whoami: [],
  "projects list": [],
  "projects create": ["name"],
  "projects use": ["name"],
  "service-accounts create": ["name"],
  "service-accounts list": [],
  "service-accounts rotate": ["name"],
  "service-accounts delete": ["name", "--yes"],
};
const CASES = Object.entries(WORDS).map(([name, words]) => ({ name, args: [...name.split(" "), ...words] }));

type Ended = { readonly name: string; readonly ran: Ran };

/** Runs each in a process of its own, a few at a time. */
async function runEach(client: Client, cases: typeof CASES): Promise<Ended[]> {
  const waiting = [...cases];
  const done: Ended[] = [];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      done.push({ name: next.name, ran: await client.runAlone(...next.args) });
    }
  };
  await Promise.all([work(), work(), work()]);
  return done;
}

/** Runs them in one process: that each ends by itself is seen where each has its own. */
async function runTogether(client: Client, cases: typeof CASES): Promise<Ended[]> {
  const ran = await client.runAll(cases.map(({ args }) => args));
  expect(ran).toHaveLength(cases.length);
  return cases.map(({ name }, place) => ({ name, ran: ran[place]! }));
}

function expectFailure({ name, ran }: Ended, message: RegExp): void {
  expect([name, ran.code, ran.stdout]).toEqual([name, 1, ""]);
  expect(`${name}: ${ran.stderr}`).toMatch(message);
  expect(ran.stderr).not.toMatch(/^\s+at |node:internal|Error:/m);
  // What helps is named.
  expect(`${name}: ${ran.stderr}`).toMatch(/^ {2}→ \S/m);
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
  "a token that is not taken is named by where it came from, with the command that helps",
  async () => {
    const client = new Client(shared(), {
      MILLRACE_TOKEN: "wrong",
      MILLRACE_PROJECT: shared().service.owner.projectId,
    });
    for (const ended of await runEach(client, CASES)) {
      expectFailure(
        ended,
        /: millrace: \S+ does not accept the token from MILLRACE_TOKEN\n {2}→ millrace login http/,
      );
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
      [["runs", "list"], 2, { code: "usage", message: "missing required argument 'app'" }],
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
