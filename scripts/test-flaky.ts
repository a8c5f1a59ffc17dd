import { spawn } from "node:child_process";
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { failuresOf, heading, type Report, rowOf, type RunEnd, summaryOf } from "./flaky-report.ts";

// Runs the suite again and again while other processes spin: `npm run test:flaky -- --runs 5 --load 2`. Names of
// test files after another `--` leave the others out. Ends with 1 if a test ever failed.

/** Spins, but looks up now and then: its input ends when its parent does, however that came. */
const SPIN = `
process.stdin.on("end", () => process.exit()).resume();
const spin = () => {
  for (const until = performance.now() + 50; performance.now() < until;);
  setImmediate(spin);
};
spin();
`;

function count(text: string, name: string): number {
  if (/^\d{1,4}$/.test(text)) return Number(text);
  console.error(`--${name} takes a number, not ${text}`);
  return process.exit(2);
}

const { values, positionals: files } = parseArgs({
  options: { runs: { type: "string", default: "3" }, load: { type: "string", default: "0" } },
  allowPositionals: true,
});
const [runs, load] = [count(values.runs, "runs"), count(values.load, "load")];
const folder = mkdtempSync(path.join(tmpdir(), "millrace-flaky-"));
const spinners = Array.from({ length: load }, () =>
  spawn(process.execPath, ["-e", SPIN], { stdio: ["pipe", "ignore", "inherit"] }),
);

/** `npm test`, once. */
async function runOnce(number: number): Promise<RunEnd> {
  const file = path.join(folder, `${number}.json`);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const startedAt = performance.now();
  const log = createWriteStream(path.join(folder, `${number}.log`));
  const suite = spawn(process.execPath, ["--run", "test", "--", ...reporters, ...files], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [suite.stdout, suite.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      log.write(text);
    });
  }
  const exitCode = await new Promise<number>((resolve) => suite.once("close", (code) => resolve(code ?? 1)));
  log.end();
  return { report: readReport(file), exitCode, output, seconds: (performance.now() - startedAt) / 1000 };
}

function readReport(file: string): Report | null {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Report;
  } catch {
    return null; // The run ended before it could write one.
  }
}

const ends: RunEnd[] = [];
console.log(heading);
for (let number = 1; number <= runs; number++) {
  const end = await runOnce(number);
  ends.push(end);
  console.log(rowOf(number, end));
}
for (const spinner of spinners) spinner.kill();
console.log(`\n${summaryOf(ends)}`);
if (ends.some((end) => failuresOf(end).length > 0)) {
  console.log(`\nall that was printed is in ${folder}`);
  process.exitCode = 1;
} else {
  rmSync(folder, { recursive: true });
}
