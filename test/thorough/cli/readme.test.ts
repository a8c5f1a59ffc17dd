import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { Command, repositoryCopy, run, scratchDirectory } from "../../support/command-line.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const README = readFileSync(path.join(REPOSITORY, "README.md"), "utf8");
const BLOCKS = [...README.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = ""]) => block);

/** `npm start` in a clone, on any free port; resolves with the port of the app endpoints. */
async function npmStart(
  cwd: string,
  more: Readonly<Record<string, string>>,
): Promise<{ command: Command; port: string }> {
  const env = { MILLRACE_API_PORT: "0", MILLRACE_BASE_PORT: "0", ...more };
  const command = new Command("npm", ["start"], { cwd, env });
  await command.printed(/Ctrl-C stops it/);
  return { command, port: /apps +http:\/\/127\.0\.0\.1:(\d+)/.exec(command.stdout)?.[1] ?? "" };
}

/** What stands in for vLLM; isolated apps see the folders of the service's PATH that have such a name. */
function programs(): string {
  const folder = path.join(scratchDirectory(), "bin");
  const program = readFileSync(path.join(REPOSITORY, "test/examples/vllm.py"), "utf8");
  mkdirSync(folder);
  writeFileSync(path.join(folder, "vllm"), `#!/usr/bin/env python3\n${program}`, { mode: 0o755 });
  return folder;
}

verifies(
  "docs.blocks",
  "the README's commands do what it says, from the first start to a model and an app of one's own",
  async () => {
    expect(BLOCKS).toHaveLength(5);
    const [install = "", ask = "", model = "", deploy = "", call = ""] = BLOCKS;
    // The packages are there already: the clone shares them.
    expect(install).toBe("git clone <this repository> millrace\ncd millrace\nnpm ci\nnpm start\n");
    const cwd = repositoryCopy();
    const { command, port } = await npmStart(cwd, {
      PATH: `${programs()}${path.delimiter}${process.env["PATH"]}`,
      MILLRACE_GPUS: "none",
    });
    // Its packages take gigabytes.
    const toml = path.join(cwd, "examples/vllm/millrace.toml");
    writeFileSync(toml, readFileSync(toml, "utf8").replace(/^\[dependencies\.pip\][^]*$/m, ""));
    const shell = async (script: string) => {
      const text = script.replaceAll("127.0.0.1:4000", `127.0.0.1:${port}`);
      const { code, stdout, stderr } = await run("sh", ["-e", "-c", text], { cwd });
      expect([code, stdout, stderr]).toEqual([0, expect.anything(), expect.anything()]);
      return stdout;
    };
    expect(command.stdout.match(/^curl (?:-N )?-X POST/gm)).toHaveLength(3);
    expect(JSON.parse(await shell(ask))).toMatchObject({ result: { message: "Hello, Grace!" } });
    expect(JSON.parse((await shell(model)).trim().split("\n").at(-1) ?? "")).toMatchObject({
      object: "chat.completion",
      model: "Qwen/Qwen3-8B",
      choices: [{ message: { role: "assistant" } }],
    });
    expect(await shell(deploy)).toContain("/adder/run");
    const called = await shell(call);
    expect(called.match(/"sum": ?42/g)).toHaveLength(2);
    expect(called).toContain("number 4");
    await command.interrupt();
  },
);
