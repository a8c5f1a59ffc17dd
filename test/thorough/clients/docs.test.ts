import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Webhook } from "standardwebhooks";
import { beforeAll, describe, expect, test } from "vitest";
import { Command, scratchDirectory } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";

const DOCUMENT = readFileSync(path.join(REPOSITORY, "docs/clients.md"), "utf8");
const example = (name: string): { main: string } => ({
  main: readFileSync(path.join(REPOSITORY, "examples", name, "main.py"), "utf8"),
});
const service = sharedService({ hello: example("hello"), counter: example("counter") });

beforeAll(async () => {
  // A server that answers like vLLM.
  await service().deploy("vllm", {
    main: readFileSync(path.join(REPOSITORY, "test/examples/vllm.py"), "utf8"),
    toml: '[runtime.custom]\nentrypoint = "python main.py serve Qwen/Qwen3-8B --port 8000"\n',
  });
});

/** What calls the function of the documents with a delivery. */
const RUN_OF = {
  ts: `const { HEADERS = "", BODY = "" } = process.env;
const request = new Request("http://example.test", { method: "POST", headers: JSON.parse(HEADERS), body: BODY });
console.log(await runOf(request));`,
  python: `import json
print(run_of(json.loads(os.environ["HEADERS"]), os.environ["BODY"].encode()))`,
};

const LANGUAGES = [
  { fence: "ts", file: "example.ts", program: process.execPath },
  { fence: "python", file: "example.py", program: "python3" },
] as const;

describe.each(LANGUAGES)("the examples in $fence", ({ fence, file, program }) => {
  const blocks = [...DOCUMENT.matchAll(new RegExp(`\`\`\`${fence}\n([\\s\\S]*?)\`\`\``, "g"))];
  const [calls = "", many, batches, verify] = blocks.map(([, block = ""]) => block);

  /** Runs a block as a project of its own would that has the client installed. */
  function start(block: string | undefined, env: Record<string, string>): Command {
    const cwd = scratchDirectory();
    const installed = path.join(cwd, "package");
    mkdirSync(installed);
    mkdirSync(path.join(cwd, "node_modules"));
    symlinkSync(path.join(REPOSITORY, "src/client"), path.join(installed, "client"));
    symlinkSync(installed, path.join(cwd, "node_modules", "millrace"));
    const exports = { "./client": "./client/client.ts" };
    writeFileSync(path.join(installed, "package.json"), JSON.stringify({ name: "millrace", exports }));
    writeFileSync(path.join(cwd, "package.json"), '{ "type": "module" }');
    writeFileSync(path.join(cwd, file), block ?? "");
    const python = { PYTHONPATH: path.join(REPOSITORY, "python"), PYTHONDONTWRITEBYTECODE: "1" };
    return new Command(program, [file], { cwd, env: { ...python, ...env } });
  }

  test("call with many inputs", async () => {
    const { apiUrl, owner } = service().service;
    // The imports and the client.
    const head = calls.split("\n\n").slice(0, 2);
    const command = start([...head, many, batches].join("\n\n"), {
      MILLRACE_URL: apiUrl,
      MILLRACE_PROJECT: owner.projectId,
      MILLRACE_TOKEN: owner.token,
    });
    expect([await command.exited, command.stderr]).toEqual([0, ""]);
    const lines = command.stdout.trim().split("\n");
    expect(lines.slice(0, 2)).toEqual([expect.stringContaining("Ada"), expect.stringContaining("Grace")]);
    expect(lines.slice(-2)).toEqual([expect.stringMatching(/^ada .*Ada/), "completed"]);
  });

  test("call apps in every way", async () => {
    expect(blocks).toHaveLength(4);
    const { apiUrl, owner } = service().service;
    const command = start(calls, {
      MILLRACE_URL: apiUrl,
      MILLRACE_PROJECT: owner.projectId,
      MILLRACE_TOKEN: owner.token,
    });
    expect([await command.exited, command.stderr]).toEqual([0, ""]);
    const [hello, background, ...numbers] = command.stdout.trim().split("\n");
    expect(hello).toMatch(/^Hello, Ada! [0-9a-f-]{36} [\d.]+$/);
    expect(background).toMatch(/^(?:queued|running|success) \{ ?'?message'?: ['"]Hello, Grace!['"] ?\}$/);
    const server = "200 Qwen/Qwen3-8B";
    expect(numbers.map((line) => line.trim())).toEqual(["Number 0", "Number 1", "Number 2", server]);
  });

  test("verify what is genuine and nothing else", async () => {
    const secret = `whsec_${Buffer.from("a secret of 24 bytes, yes").toString("base64")}`;
    const [id, body, at] = ["0197c3a0-7e1b-7abc-8def-0123456789ab", '{"result":1}', new Date()];
    const headers = {
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
      "webhook-signature": new Webhook(secret).sign(id, at, body),
    };
    const env = { WEBHOOK_SECRET: secret, HEADERS: JSON.stringify(headers) };
    const program = `${verify}\n${RUN_OF[fence]}\n`;
    const genuine = start(program, { ...env, BODY: body });
    expect([await genuine.exited, genuine.stdout.trim(), genuine.stderr]).toEqual([0, id, ""]);
    const other = start(program, { ...env, BODY: "{}" });
    expect([await other.exited, other.stdout]).toEqual([1, ""]);
    expect(other.stderr).toContain("InvalidWebhook");
  });
});
