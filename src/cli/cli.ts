import { runCommand } from "./program.ts";

// Timers of a clock keep no process alive: a command that only waits for one would end half-way, with code 13.
const awake = setInterval(() => {}, 60_000);
process.exitCode = await runCommand(process.argv.slice(2));
clearInterval(awake);
