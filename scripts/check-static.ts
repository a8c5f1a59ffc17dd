import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** What can be said of the code without running it, side by side; all of it is said, whatever fails first. */
const CHECKS = ["format", "lint", "python", "types", "unused"];

type Failure = { readonly stdout: string; readonly stderr: string };

async function check(name: string): Promise<void> {
  const start = performance.now();
  const secondsText = () => `${((performance.now() - start) / 1000).toFixed(1)} s`;
  try {
    await promisify(execFile)(process.execPath, ["--run", `check:${name}`], { maxBuffer: 2 ** 26 });
    console.log(`${name}: no fault, ${secondsText()}`);
  } catch (error) {
    const { stdout, stderr } = error as Failure;
    console.error(`${stdout}${stderr}\n${name}: faults, ${secondsText()}`);
    process.exitCode = 1;
  }
}

await Promise.all(CHECKS.map(check));
