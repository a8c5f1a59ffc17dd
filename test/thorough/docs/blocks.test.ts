import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadAppConfig } from "../../../src/config/app-config.ts";
import { Command, MILLRACE } from "../../support/command-line.ts";
import { commandsOf, tryCommand } from "../../support/document-commands.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const DOCS = [
  "docs/accounts.md",
  "docs/cli.md",
  "docs/logs.md",
  "docs/management.md",
  "docs/queues.md",
  "docs/usage.md",
];
/** Those with packages are tried in `examples/packages.test.ts` and `test/examples/`. */
const EXAMPLES = readdirSync(path.join(REPOSITORY, "examples"))
  .filter((name) => !hasPackages(name))
  .map((name) => `examples/${name}/README.md`);
/** Those that go on until somebody ends them. */
const ENDLESS = / --follow| dev | listen/;

const service = sharedService(
  { hello: { main: "def run(name='x'):\n    print('an error of hello')\n    return name\n" } },
  { webhookAllow: "127.0.0.0/8" },
);
let home = "";
let env: Record<string, string> = {};

beforeAll(async () => {
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
  symlinkSync(MILLRACE, path.join(home, "bin", "millrace"));
  symlinkSync(path.join(REPOSITORY, "examples"), path.join(home, "examples"));
  writeFileSync(path.join(home, "main.py"), "def run():\n    return 1\n");
  writeFileSync(path.join(home, "inputs.jsonl"), '{"name":"Ada"}\n');
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
    ID: await callAccount(baseUrl, owner),
  };
});

function hasPackages(name: string): boolean {
  const folder = path.join(REPOSITORY, "examples", name);
  return Object.keys(loadAppConfig(folder).config.dependencies.pip).length > 0;
}

/** The id of an account with the role `call`. */
async function callAccount(
  baseUrl: string,
  { projectId, token }: { readonly projectId: string; readonly token: string },
): Promise<string> {
  const created = await fetch(`${baseUrl}/v2/projects/${projectId}/service-accounts`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "users", role: "call", apps: ["hello"] }),
  });
  expect(created.status).toBe(200);
  return ((await created.json()) as { readonly id: string }).id;
}

afterAll(() => rmSync(home, { recursive: true, force: true }));

/** Tries a command; what goes on is ended by Ctrl-C once it is at work, or with the test if it is in the background. */
async function tryOut(command: string): Promise<void> {
  if (!ENDLESS.test(command)) {
    await tryCommand(command, { cwd: home, env });
    return;
  }
  const [program = "", ...args] = command.replace(/ &$/, "").split(" ");
  const endless = new Command(path.join(home, "bin", program), args, { cwd: home, env });
  // A log may have nothing to say.
  if (command.endsWith(" --follow")) await endless.connects();
  else await endless.printed(/ serves |^Listening /m);
  if (!command.endsWith("&")) expect([0, 130]).toContain(await endless.interrupt());
}

describe("the commands of", () => {
  for (const file of [...DOCS, ...EXAMPLES]) {
    const commands = commandsOf(file);
    if (commands.length === 0) continue;
    verifies("docs.blocks", file, async () => {
      for (const command of commands) await tryOut(command);
    });
  }
});

test("every document with commands is among those that are tried", () => {
  const elsewhere = [
    "docs/batches.md",
    "docs/ci.md",
    "docs/clients.md",
    "docs/cluster.md",
    "docs/first-app.md",
    "docs/helm.md",
    "docs/kubernetes.md",
    "docs/models.md",
    "docs/packages.md",
    "docs/ray.md",
    "docs/scaling.md",
    "docs/schedules.md",
    "docs/webhooks.md",
  ];
  const tried = [...DOCS, ...elsewhere];
  const withCommands = readdirSync(path.join(REPOSITORY, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`)
    .filter((file) => commandsOf(file).length > 0);
  expect(withCommands.filter((file) => !tried.includes(file))).toEqual([]);
});
