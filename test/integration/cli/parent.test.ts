import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { Command, MILLRACE, groupMembers, scratchDirectory } from "../../support/command-line.ts";
import type { CommandOptions } from "../../support/command-line.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const ADVANCE = "echo $(($(cat now) + $1)) >now; echo slept $1";

/**
 * `bin/millrace` with a Node that is a script of the test, and with a clock that the script moves: each `sleep` and
 * each start makes it later, and nobody waits.
 */
function withNode(
  script: string,
  sleep = ADVANCE,
  programs: Readonly<Record<string, (root: string) => string>> = {},
): (args: readonly string[], options?: CommandOptions) => Command {
  const root = scratchDirectory();
  const write = (file: string, text: string): void => {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
    chmodSync(path.join(root, file), 0o755);
  };
  mkdirSync(path.join(root, "bin"));
  copyFileSync(MILLRACE, path.join(root, "bin/millrace"));
  write("src/cli/cli.ts", "");
  write("node_modules/.bin/node", `#!/bin/sh\ncd ${root}\n${script}`);
  write("clock/now", "1000000000\n");
  write("clock/date", `#!/bin/sh\ncat ${root}/clock/now\n`);
  write("clock/sleep", `#!/bin/sh\ncd ${root}/clock\n${sleep}\n`);
  for (const [name, text] of Object.entries(programs)) write(`clock/${name}`, text(root));
  const PATH = `${root}/clock:${process.env["PATH"]}`;
  return (args, options = {}) =>
    new Command(path.join(root, "bin/millrace"), args, {
      ...options,
      cwd: root,
      env: { PATH, ...options.env },
    });
}

const FAILS_AT_ONCE = "echo started; exit 70\n";
/** Runs for twenty seconds of the test's clock. */
const FAILS_LATER =
  'echo started; sleep 20; echo x >>count; [ "$(wc -l <count)" -lt 10 ] || exit 0; exit 70\n';

verifies(
  "net.gives-up",
  "five faults within a minute, each start later than the one before, are the end",
  async () => {
    const command = withNode(FAILS_AT_ONCE)(["serve"]);
    expect(await command.exited).toBe(70);
    const seen = command.stdout.match(/started|slept \d/g) ?? [];
    expect(seen.join(", ")).toBe(
      "started, slept 0, started, slept 1, started, slept 2, started, slept 4, started",
    );
    expect(command.stderr).toMatch(/^millrace: the service failed 5 times within a minute: giving up\./m);
  },
);

verifies("net.gives-up", "faults that are further apart do not add up", async () => {
  const command = withNode(FAILS_LATER)(["start"]);
  expect(await command.exited).toBe(0);
  expect(command.stdout.match(/started/g)).toHaveLength(10);
  expect(command.stderr).not.toContain("giving up");
});

verifies("net.signals", "what the service ends with is what the command ends with", async () => {
  for (const code of [0, 1, 2, 3, 130, 255]) {
    const command = withNode(`echo started "$@"; exit ${code}\n`)(["serve", "--host", "a b"]);
    expect(await command.exited).toBe(code);
    // After Node's own flags and the entry.
    expect(command.stdout).toMatch(/^started (?:--\S+ )+\S+cli\.ts serve --host a b\n$/);
  }
});

test("a command that is no service has no parent", async () => {
  const command = withNode('echo "$PPID ${MILLRACE_PARENT:-none}"; exit 70\n')(["version"]);
  expect(await command.exited).toBe(70);
  expect(command.stdout).toBe(`${process.pid} none\n`);
});

/** Does nothing until it is told to end. A shell that has just forked may miss any signal but KILL. */
const waits = (atEnd: string): string =>
  `trap 'kill -9 $!; ${atEnd}' TERM; /bin/sleep 1000 & echo ready; wait; exit 8\n`;

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  verifies("net.signals", `${signal} to the parent is told the service, once, and waited for`, async () => {
    const command = withNode(waits("echo heard TERM; exit 9"))(["serve"]);
    await command.printed(/ready/);
    process.kill(command.group, signal);
    expect(await command.exited).toBe(9);
    expect(command.stdout).toBe("ready\nheard TERM\n");
    await until("nobody is left", () => groupMembers(command.group).length === 0);
  });
}

verifies(
  "net.signals",
  "a signal that comes before there is a service is told as soon as there is",
  async () => {
    // Sent by the first program that the parent starts, and passed on in the moment of the fork.
    const early = (root: string): string => `#!/bin/sh
[ -e ${root}/told ] || { : >${root}/told; kill -TERM "$(ps -o pgid= -p $$ | /usr/bin/tr -d ' ')"; }
exec /usr/bin/tr "$@"
`;
    for (let time = 0; time < 10; time += 1) {
      const command = withNode("exec /bin/sleep 1000\n", ADVANCE, { tr: early })(["serve"]);
      expect(await command.exited).toBe(143);
      await until("nobody is left", () => groupMembers(command.group).length === 0);
    }
  },
);

verifies(
  "net.signals",
  "a service that ends with 70 because it was told to end is not started again",
  async () => {
    const command = withNode(waits("exit 70"))(["serve"]);
    await command.printed(/ready/);
    process.kill(command.group, "SIGTERM");
    expect(await command.exited).toBe(70);
    expect(command.stdout).toBe("ready\n");
  },
);

test("between two starts a signal is the end", async () => {
  const command = withNode(FAILS_AT_ONCE, "exec /bin/sleep 1000")(["serve"]);
  await command.printed(/restarting in 0 s/);
  process.kill(command.group, "SIGTERM");
  expect(await command.exited).toBe(143);
  await until("nobody is left", () => groupMembers(command.group).length === 0);
});
