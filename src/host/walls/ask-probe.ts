import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { startOf } from "./isolated-start.ts";

/** Generous: a few processes that start and end. */
const ANSWER_MS = 60_000;

/**
 * Asks one of the Python programs that try what this host can do, and gives what it printed. Throws with the reason, as
 * the program's last line says it, if it printed nothing or could not be run.
 */
export async function askProbe(
  python: string,
  module: `millrace_walls.probe${string}`,
  question: object,
): Promise<string> {
  const child = spawn(python, startOf(module), { env: {}, cwd: "/", timeout: ANSWER_MS });
  child.stdin.on("error", () => {}); // It ended before it read: what it said on stderr tells why.
  child.stdin.end(`${JSON.stringify(question)}\n`);
  const failed = new Promise<never>((_, reject) => void child.once("error", reject));
  const [said, complaint] = await Promise.race([
    Promise.all([text(child.stdout), text(child.stderr)]),
    failed,
  ]);
  if (said.trim() === "") throw new Error(complaint.trim().split("\n").at(-1) || "Python gave no answer");
  return said;
}
