import { createInterface } from "node:readline";
import { runCommand } from "../../src/cli/run-command.ts";

// A command line that runs one command after the other in one process, for tests that run dozens of them and whose
// subject is what each says: to start anew takes ten times as long as the command. Each line of stdin is a command,
// each line of stdout how it ended.

/** A line of stdin. */
export type CommandToRun = { readonly args: readonly string[]; readonly env: Record<string, string> };

/** A line of stdout. */
export type CommandRan = { readonly code: number; readonly stdout: string; readonly stderr: string };

class Exit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`process.exit(${code})`);
    this.code = code;
  }
}

const tell = process.stdout.write.bind(process.stdout);
const bare = { ...process.env };
// A command adds listeners that its process takes along.
process.stdout.setMaxListeners(0);
process.exit = (code) => {
  throw new Exit(Number(code ?? process.exitCode ?? 0));
};

async function runOne({ args, env }: CommandToRun): Promise<CommandRan> {
  const said = { stdout: "", stderr: "" };
  const into = (stream: keyof typeof said) => (text: string | Uint8Array) => {
    said[stream] += typeof text === "string" ? text : Buffer.from(text).toString();
    return true;
  };
  process.stdout.write = into("stdout");
  process.stderr.write = into("stderr");
  process.env = { ...bare, ...env };
  process.exitCode = 0;
  try {
    return { code: await runCommand(args), ...said };
  } catch (error) {
    if (error instanceof Exit) return { code: error.code, ...said };
    throw error;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  tell(`${JSON.stringify(await runOne(JSON.parse(line) as CommandToRun))}\n`);
}
process.exitCode = 0;
