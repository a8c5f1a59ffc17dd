import { createInterface } from "node:readline/promises";
import { CliFailure, usage } from "../failure.ts";
import { printableName } from "./paint.ts";

/** Asks before something that cannot be undone; without a terminal it is refused unless `--yes` was given. */
export async function confirm(
  question: string,
  { yes = false }: { readonly yes?: boolean | undefined },
  signal: AbortSignal,
): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw usage(`${question} This is not a terminal, so nobody can answer.`, "add --yes if you are sure");
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // In raw mode Ctrl-C is a key and no signal.
    asking.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    const answer = await asking.question(`${printableName(question)} [y/N] `, { signal });
    if (!/^y(?:es)?$/i.test(answer.trim())) throw new CliFailure("nothing was changed");
  } finally {
    asking.close();
  }
}
