import type { Command } from "commander";

/** Adds the options that say which service and project are meant, and how to print. */
export function remote(command: Command): Command {
  return command
    .option("--url <url>", "management address of the service [MILLRACE_URL]")
    .option("--project <id>", "project [MILLRACE_PROJECT]")
    .option("--data-dir <folder>", "use the service that runs on this data directory, whatever else is set")
    .option("--json", "print one JSON document");
}

/** Shows how a command is typed, under its help. */
export function examples(command: Command, ...lines: readonly string[]): Command {
  const title = lines.length === 1 ? "Example" : "Examples";
  return command.addHelpText("after", `\n${title}:\n${lines.map((line) => `  ${line}`).join("\n")}`);
}
