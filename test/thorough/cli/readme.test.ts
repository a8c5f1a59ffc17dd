import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { Command, repositoryCopy, run } from "../../support/command-line.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const README = readFileSync(path.join(REPOSITORY, "README.md"), "utf8");
const BLOCKS = [...README.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = ""]) => block);

/** `npm start` in a clone, on any free port; resolves with the port of the app endpoints. */
async function npmStart(cwd: string): Promise<{ command: Command; port: string }> {
  const env = { MILLRACE_API_PORT: "0", MILLRACE_BASE_PORT: "0" };
  const command = new Command("npm", ["start"], { cwd, env });
  await command.printed(/Ctrl-C stops it/);
  return { command, port: /apps +http:\/\/127\.0\.0\.1:(\d+)/.exec(command.stdout)?.[1] ?? "" };
}

verifies(
  "docs.blocks",
  "the README's commands do what it says, from the first start to an app of one's own",
  async () => {
    expect(BLOCKS).toHaveLength(4);
    const [install = "", ask = "", deploy = "", call = ""] = BLOCKS;
    // The packages are there already: the clone shares them.
    expect(install).toBe("npm ci\nnpm start\n");
    const cwd = repositoryCopy();
    const { command, port } = await npmStart(cwd);
    const shell = async (script: string) => {
      const text = script.replaceAll("127.0.0.1:4000", `127.0.0.1:${port}`);
      const { code, stdout, stderr } = await run("sh", ["-e", "-c", text], { cwd });
      expect([code, stdout, stderr]).toEqual([0, expect.anything(), expect.anything()]);
      return stdout;
    };
    expect(command.stdout.match(/^curl (?:-N )?-X POST/gm)).toHaveLength(3);
    expect(JSON.parse(await shell(ask))).toMatchObject({ result: { message: "Hello, Grace!" } });
    expect(await shell(deploy)).toContain("/adder/run");
    const called = await shell(call);
    expect(called.match(/"sum": ?42/g)).toHaveLength(2);
    expect(called).toContain("number 4");
    await command.interrupt();
  },
);
