import type { Command } from "commander";
import { parseDuration } from "../kit/units.ts";
import { usage } from "./failure.ts";

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

/** Reads the value of an option that takes a whole number within bounds. */
export function count(option: string, min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw usage(`${option} takes a number from ${min} to ${max}, not ${JSON.stringify(text)}`);
  };
}

/** The same of one that takes a duration; gives seconds. */
export function seconds(option: string, max = Infinity): (text: string) => number {
  return (text) => {
    const value = parseDuration(text);
    if (value !== null && value <= max) return value;
    throw usage(`${option} takes a duration such as 90s or 15m, not ${JSON.stringify(text)}`);
  };
}

/** The same of one that takes one of some words. */
export function oneOf(option: string, words: readonly string[]): (text: string) => string {
  return (text) => {
    if (words.includes(text)) return text;
    throw usage(`${option} takes one of ${words.join(", ")}, not ${JSON.stringify(text)}`);
  };
}

/** The option of a command that lists entries. */
export const LIMIT_OPTION = [
  "--limit <count>",
  "how many to show at most",
  count("--limit", 1, 9_999_999),
  20,
] as const;

/** The options of a command that runs on the machine of the service; most of them are settings. */
export type OperatorFlags = { readonly json?: boolean; readonly [option: string]: unknown };
