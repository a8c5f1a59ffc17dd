import { Command } from "commander";
import { VERSION } from "../config/release.ts";
import { COMMANDS } from "./command-table.ts";

/** Stands for every command. */
export const ALL = "*";

/** The command line's tree with one command filled in, or all of them at `ALL`; the others have their name and summary. */
export async function buildProgram(wanted: string | null): Promise<Command> {
  const program = new Command("millrace")
    .description("Deploy Python functions and servers; call them over HTTP.")
    .version(VERSION)
    .commandsGroup("More:")
    .showHelpAfterError("(millrace --help lists all commands)")
    .addHelpText(
      "after",
      "\nExample:\n  millrace call hello name=Ada\n\nRun millrace COMMAND --help for more.",
    );
  for (const { name, summary, group, define } of COMMANDS) {
    const command = program.command(name).description(summary).helpGroup(`${group}:`);
    command.showHelpAfterError(`(see millrace ${name} --help)`);
    if (wanted === ALL || wanted === name) await define(command);
  }
  return program;
}

/** What has to be filled in for these arguments: nothing for `--help` alone, all where the whole tree is shown. */
export function wantedBy(args: readonly string[]): string | null {
  const words = args.filter((word) => !word.startsWith("-"));
  const wanted = words[0] === "help" ? words[1] : words[0];
  return wanted === "completion" ? ALL : (wanted ?? null);
}
