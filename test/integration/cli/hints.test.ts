import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { run } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const ADDER = "def run(a: int, b: int = 1):\n    return {'sum': a + b}\n";
const shared = sharedService({ hello: { main: "def run():\n    return 'the shared one'\n" } });

function folderOf(client: Client, name: string, main: string): void {
  mkdirSync(path.join(client.cwd, name));
  writeFileSync(path.join(client.cwd, name, "main.py"), main);
}

verifies(
  "cli.pastable",
  "what deploy prints works when it is pasted, with the owner's token or one that is set, and names the same service",
  async () => {
    const { dataDir } = shared().settings;
    const bare = { PATH: process.env["PATH"] ?? "" };
    for (const [client, options] of [
      [new Client(shared(), bare), []],
      [new Client(null, { MILLRACE_DATA_DIR: dataDir, ...bare }), []],
      [new Client(null, bare), ["--data-dir", dataDir]],
    ] as const) {
      folderOf(client, "adder", ADDER);
      const deployed = await client.ok("deploy", "adder", "--yes", ...options);
      const commands = deployed.split("\n").filter((line) => / call adder | curl /.test(` ${line.trim()}`));
      expect(commands).toHaveLength(2);
      for (const command of commands) {
        const pasted = await run("sh", ["-c", command.replace("curl ", "curl -sS ")], client);
        expect([command, pasted.code, pasted.stderr]).toEqual([command, 0, ""]);
        expect(pasted.stdout.replaceAll(/\s/g, "")).toContain('{"sum":2}');
      }
      // The token itself is in no log of a deploy.
      expect(deployed).not.toContain(shared().service.owner.token);
    }
  },
);

verifies("cli.pastable", "the hint of an error names the program as it can be typed", async () => {
  const client = new Client(shared(), { PATH: process.env["PATH"] ?? "" });
  const { stderr } = await client.run("call", "nosuch");
  const [, command = ""] = /→ (\S+) apps list/.exec(stderr) ?? [];
  expect((await run(command, ["apps", "list"], client)).code).toBe(0);
});

verifies("cli.data-dir", "--data-dir asks the service on that directory, whatever else is set", async () => {
  const other = await testService();
  await other.deploy("hello", { main: "def run():\n    return 'the other one'\n" });
  const client = new Client(shared());
  expect(await client.ok("call", "hello")).toBe("the shared one\n");
  expect(await client.ok("call", "hello", "--data-dir", other.settings.dataDir)).toBe("the other one\n");
  const nobody = await client.run("call", "hello", "--data-dir", client.cwd);
  expect([nobody.code, nobody.stderr]).toEqual([
    1,
    expect.stringContaining(`no service runs on the data directory ${client.cwd}`),
  ]);
  const both = await client.run("call", "hello", "--data-dir", client.cwd, "--url", "http://127.0.0.1:1");
  expect(both.code).toBe(2);
});

verifies(
  "deploy.syntax",
  "deploy refuses a file that does not parse, and --disable-syntax-check builds it all the same",
  async () => {
    const client = new Client(shared());
    folderOf(client, "typo", "def run():\n    return 1\n");
    writeFileSync(path.join(client.cwd, "typo", "helper.py"), "\ndef f(:\n");
    const refused = await client.run("deploy", "typo", "--yes");
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(
      /build_failure: helper\.py, line 2: SyntaxError: .* or deploy with --disable-syntax-check\n/,
    );
    expect(await client.ok("deploy", "typo", "--yes", "--disable-syntax-check")).toContain(
      "warning: helper.py, line 2: SyntaxError",
    );
  },
);
