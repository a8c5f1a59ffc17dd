import { openSync } from "node:fs";
import { runProgram } from "../../src/engines/programs/run-program.ts";

/** Takes every descriptor that its limit leaves, starts a kept process, and prints what became of that. */
try {
  for (;;) openSync("/dev/null", "r");
} catch {
  // None is left.
}
const order = {
  program: "/bin/true",
  args: [],
  cwd: "/",
  env: {},
  onLine: () => {},
  walls: null,
  held: null,
};
const told = await runProgram(process.execPath, order, new AbortController().signal).then(
  () => "it ran",
  (error: unknown) => String(error),
);
// Whatever an event without a listener would throw comes before this.
await new Promise((resolve) => setImmediate(resolve));
process.stdout.write(told);
