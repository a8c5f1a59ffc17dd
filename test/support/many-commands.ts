import { Socket } from "node:net";
import { createInterface } from "node:readline";
import { runCommand } from "../../src/cli/program.ts";

// A command line that runs one command after the other in one process, for tests that run dozens of them and whose
// subject is what each says: to start anew takes ten times as long as the command. Each line on descriptor 3 is a
// command, each line of stdout how it ended.

/** A line on descriptor 3. */
export type CommandToRun = {
  readonly args: readonly string[];
  readonly env: Record<string, string>;
  readonly cwd: string;
};

/** A line of stdout. */
export type CommandRan = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** Nothing of a command goes on after its exit. */
class Exit extends Error {}

const tell = process.stdout.write.bind(process.stdout);
const complain = process.stderr.write.bind(process.stderr);
const bare = { ...process.env };
const home = process.cwd();
const end = process.exit.bind(process);
// A command adds listeners that its process takes along.
process.stdout.setMaxListeners(0);
let onExit: (code: number) => void = () => {};
process.exit = (code) => {
  onExit(Number(code ?? process.exitCode ?? 0));
  throw new Exit();
};
process.on("uncaughtException", (error) => {
  if (error instanceof Exit) return;
  complain(`${error.stack}\n`);
  end(1);
});

async function runOne({ args, env, cwd }: CommandToRun): Promise<CommandRan> {
  const said = { stdout: "", stderr: "" };
  const exited = Promise.withResolvers<number>();
  let isOver = false;
  onExit = (code) => {
    isOver = true;
    exited.resolve(code);
  };
  const into =
    (stream: keyof typeof said) =>
    (text: string | Uint8Array, ...rest: unknown[]) => {
      if (!isOver) said[stream] += typeof text === "string" ? text : Buffer.from(text).toString();
      const done = rest.at(-1);
      if (typeof done === "function") queueMicrotask(() => done());
      return true;
    };
  process.stdout.write = into("stdout");
  process.stderr.write = into("stderr");
  process.env = { ...bare, ...env };
  process.exitCode = 0;
  process.chdir(cwd);
  try {
    const code = await Promise.race([exited.promise, runCommand(args)]);
    return { code, ...said };
  } finally {
    // The folder is the test's, and goes with it.
    process.chdir(home);
  }
}

for await (const line of createInterface({ input: new Socket({ fd: 3 }) })) {
  tell(`${JSON.stringify(await runOne(JSON.parse(line) as CommandToRun))}\n`);
}
end(0);
