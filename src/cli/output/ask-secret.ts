import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";

/** Whether somebody is there to be asked. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks for something that is not shown while it is typed. */
export async function askSecret(question: string): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const asking = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  try {
    // In raw mode Ctrl-C is a key and no signal.
    asking.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    process.stderr.write(question);
    return await asking.question("");
  } finally {
    asking.close();
    process.stderr.write("\n");
  }
}
