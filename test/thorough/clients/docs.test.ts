import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Command, scratchDirectory } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { clientOf, newSecret } from "../../integration/clients/site.ts";

const DOCUMENT = readFileSync(path.join(REPOSITORY, "docs/clients.md"), "utf8");
const example = (name: string): { main: string } => ({
  main: readFileSync(path.join(REPOSITORY, "examples", name, "main.py"), "utf8"),
});
const service = sharedService(
  { hello: example("hello"), counter: example("counter") },
  { webhookAllow: "127.0.0.0/8" },
);

beforeAll(async () => {
  // A server that answers like vLLM.
  await service().deploy("vllm", {
    main: readFileSync(path.join(REPOSITORY, "test/examples/vllm.py"), "utf8"),
    toml: '[runtime.custom]\nentrypoint = "python main.py serve Qwen/Qwen3-8B --port 8000"\n',
  });
});

const LANGUAGES = [
  { fence: "ts", file: "example.ts", program: process.execPath },
  { fence: "python", file: "example.py", program: "python3" },
];

describe.each(LANGUAGES)("the examples in $fence", ({ fence, file, program }) => {
  const blocks = [...DOCUMENT.matchAll(new RegExp(`\`\`\`${fence}\n([\\s\\S]*?)\`\`\``, "g"))];
  const [calls = "", many, batches, receiver] = blocks.map(([, block = ""]) => block);

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

  test("receive what is genuine and nothing else", async () => {
    const command = start(receiver, { WEBHOOK_SECRET: await newSecret(service()), PORT: "0" });
    const [, port] = await command.printed(/listening on .*?(\d{2,})(?: \})?$/m);
    const url = `http://127.0.0.1:${port}/hook`;
    expect((await fetch(url, { method: "POST", body: "{}" })).status).toBe(401);
    const run = await clientOf(service()).runAsync("hello", { name: "Ada" }, { webhook: url });
    await command.printed(new RegExp(`run ${run.id} .*Hello, Ada!`));
  });
});
