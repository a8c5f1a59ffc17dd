import type { Command } from "commander";

/** The commands of a file by name: each adds its arguments, options, subcommands and action. */
export type Definitions = Readonly<Record<string, (command: Command) => void>>;

/** The option of a command that can print its result for programs. */
export const JSON_OPTION = ["--json", "print one JSON document"] as const;

/** Shows how a command is typed, under its help. */
export function examples(command: Command, ...lines: readonly string[]): Command {
  const title = lines.length === 1 ? "Example" : "Examples";
  return command.addHelpText("after", `\n${title}:\n${lines.map((line) => `  ${line}`).join("\n")}`);
}

/** Collects the values of an option that may be repeated. */
export function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** The options of a command that runs on the machine of the service; most of them are settings. */
export type OperatorFlags = { readonly json?: boolean; readonly [option: string]: unknown };
