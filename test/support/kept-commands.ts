import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import { plainEnvironment, testProgram } from "./command-line.ts";
import type { CommandRan, CommandToRun } from "./many-commands.ts";

/** A process that runs a command whenever it is asked; it ends with this one. */
class CommandProcess {
  readonly #orders: Socket;
  readonly #answers: AsyncIterator<string>;

  constructor() {
    const child = spawn(process.execPath, [testProgram("many-commands")], {
      cwd: "/",
      env: plainEnvironment(),
      // No command has anything to read from stdin.
      stdio: ["ignore", "pipe", "inherit", "pipe"],
    });
    this.#orders = child.stdio[3] as Socket;
    this.#answers = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    // It must not keep this process.
    for (const held of [child, this.#orders, child.stdout as Socket]) held.unref();
  }

  async run(order: CommandToRun): Promise<CommandRan> {
    this.#orders.write(`${JSON.stringify(order)}\n`);
    const { value, done } = await this.#answers.next();
    if (done) throw new Error(`the process that ran ${order.args.join(" ")} has ended`);
    return JSON.parse(value) as CommandRan;
  }
}

const idle: CommandProcess[] = [];

/** Runs a command in a process that has run others before it: to start one takes ten times as long as the command. */
export async function runKept(order: CommandToRun): Promise<CommandRan> {
  const process = idle.pop() ?? new CommandProcess();
  const ran = await process.run(order);
  // One that broke is not for the next.
  idle.push(process);
  return ran;
}
