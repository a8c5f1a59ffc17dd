import { spawn } from "node:child_process";
import { once } from "node:events";
import { BY_NAME } from "../test/support/projects.ts";

// Every test that this machine can run, one command after the other: `npm run test:all`. It takes an hour or two. What needs
// podman, S3 or a cluster says so where there is none. Ends with 1, and names the commands, if one failed.

const failed: string[] = [];
for (const command of ["test", ...BY_NAME.map((name) => `test:${name}`)]) {
  console.log(`\nnpm run ${command}`);
  const suite = spawn(process.execPath, ["--run", command], { stdio: "inherit" });
  const [exitCode] = (await once(suite, "close")) as [number | null];
  if (exitCode !== 0) failed.push(command);
}
console.log(failed.length === 0 ? "\nevery command passed" : `\nfailed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
