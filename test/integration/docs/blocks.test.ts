import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const DOCS = ["docs/cli.md", "docs/logs.md", "docs/management.md"];
const EXAMPLES = readdirSync(path.join(REPOSITORY, "examples")).map((name) => `examples/${name}/README.md`);
/** Those that go on until somebody ends them. */
const ENDLESS = / --follow| dev | listen/;
const SECONDS = 4;

const service = sharedService(
  { hello: { main: "def run(name='x'):\n    print('an error of hello')\n    return name\n" } },
  { webhookAllow: "127.0.0.0/8" },
);
let home = "";
let env: Record<string, string> = {};

beforeAll(() => {
  home = mkdtempSync(path.join(tmpdir(), "millrace-docs-"));
  const { baseUrl, apiUrl, owner } = service().service;
  for (const folder of [
    "bin",
    ".local/share/bash-completion/completions",
    ".zfunc",
    ".config/fish/completions",
  ]) {
    mkdirSync(path.join(home, folder), { recursive: true });
  }
  symlinkSync(path.join(REPOSITORY, "bin", "millrace"), path.join(home, "bin", "millrace"));
  symlinkSync(path.join(REPOSITORY, "examples"), path.join(home, "examples"));
  writeFileSync(path.join(home, "main.py"), "def run():\n    return 1\n");
  execFileSync("python3", ["-m", "zipfile", "-c", "hello.zip", "main.py"], { cwd: home });
  env = {
    HOME: home,
    PATH: `${path.join(home, "bin")}:${process.env["PATH"]}`,
    MILLRACE_URL: baseUrl,
    MILLRACE_API_URL: apiUrl,
    MILLRACE_TOKEN: owner.token,
    BASE_URL: baseUrl,
    PROJECT: owner.projectId,
    TOKEN: owner.token,
    APP: "hello",
  };
});

afterAll(() => rmSync(home, { recursive: true, force: true }));

/** The commands in a document's shell blocks, each with the lines that continue it. */
function commandsOf(file: string): string[] {
  const text = readFileSync(path.join(REPOSITORY, file), "utf8");
  const blocks = [...text.matchAll(/```sh\n([^]*?)```/g)].map(([, block = ""]) => block);
  return blocks.flatMap((block) => block.replaceAll("\\\n", " ").trim().split("\n"));
}

/** A command as nobody at a terminal types it: nothing is asked, and what goes on is ended after a while. */
function unattended(command: string): string {
  const asked = command.replace(/^(millrace deploy \S+)$/, "$1 --yes");
  if (!ENDLESS.test(command)) return asked;
  const ended = `timeout --signal=INT ${SECONDS} ${asked.replace(/ &$/, "")}`;
  return command.endsWith("&") ? `(${ended} || true) > /dev/null 2>&1 &` : `${ended} || [ $? -eq 124 ]`;
}

describe("the commands of", () => {
  for (const file of [...DOCS, ...EXAMPLES]) {
    const commands = commandsOf(file);
    if (commands.length === 0) continue;
    verifies(
      "docs.blocks",
      file,
      async () => {
        for (const command of commands) {
          const { code, stderr } = await run("sh", ["-c", unattended(command)], { cwd: home, env });
          expect([command, code, code === 0 ? "" : stderr]).toEqual([command, 0, ""]);
        }
      },
      60_000,
    );
  }
});

test("every document with commands is among those that are tried", () => {
  const tried = [...DOCS, "docs/clients.md", "docs/webhooks.md"];
  const withCommands = readdirSync(path.join(REPOSITORY, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`)
    .filter((file) => commandsOf(file).length > 0);
  expect(withCommands.filter((file) => !tried.includes(file))).toEqual([]);
});
