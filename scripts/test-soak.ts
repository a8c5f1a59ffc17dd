import { spawn } from "node:child_process";
import { parseArgs } from "node:util";

// Hours of mixed load and faults, or minutes: `npm run test:soak -- --minutes 60 --seed 7 --database postgres`.
// Prints a line each minute and a verdict. Ends with 1 if a promise was broken, and names the seed: with it the dice
// fall the same way again, though not at the same moments.

function number(text: string, name: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  console.error(`--${name} takes a whole number above 0, not ${text}`);
  return process.exit(2);
}

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: String(Math.ceil(Math.random() * 1e6)) },
    database: { type: "string", default: "sqlite" },
  },
});
if (values.database !== "sqlite" && values.database !== "postgres") {
  console.error(`--database takes sqlite or postgres, not ${values.database}`);
  process.exit(2);
}
const suite = spawn("vitest", ["run", "--project", "soak"], {
  stdio: "inherit",
  env: {
    ...process.env,
    MILLRACE_SOAK_MINUTES: String(number(values.minutes, "minutes")),
    MILLRACE_SOAK_SEED: String(number(values.seed, "seed")),
    MILLRACE_SOAK_DATABASE: values.database,
  },
});
suite.once("close", (code) => (process.exitCode = code ?? 1));
