import { spawn } from "node:child_process";
import { once } from "node:events";
import { BY_NAME } from "../test/support/projects.ts";

// Every test that this machine can run: `npm run test:all`. It takes an hour or two. What needs podman, S3 or a cluster says
// so where there is none. Ends with 1, and names the commands, if one failed.

/** Those that mostly wait for a cluster: they run one after the other beside the others, and print when these are over. */
const BESIDE: readonly string[] = ["test:kubernetes", "test:ray"];
const commands = ["test", ...BY_NAME.map((name) => `test:${name}`)];
const failed: string[] = [];

async function runAll(names: readonly string[], isBeside: boolean): Promise<Buffer> {
  const output: Buffer[] = [];
  const print = (text: Buffer): void => void (isBeside ? output.push(text) : process.stdout.write(text));
  for (const name of names) {
    print(Buffer.from(`\nnpm run ${name}\n`));
    const out = isBeside ? "pipe" : "inherit";
    const suite = spawn(process.execPath, ["--run", name], { stdio: ["inherit", out, out] });
    for (const stream of [suite.stdout, suite.stderr]) stream?.on("data", print);
    const [exitCode] = (await once(suite, "close")) as [number | null];
    if (exitCode !== 0) failed.push(name);
  }
  return Buffer.concat(output);
}

const isBeside = (name: string): boolean => BESIDE.includes(name);
const beside = runAll(commands.filter(isBeside), true);
await runAll(
  commands.filter((name) => !isBeside(name)),
  false,
);
process.stdout.write(await beside);
console.log(failed.length === 0 ? "\nevery command passed" : `\nfailed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
