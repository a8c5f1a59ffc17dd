import type { Command } from "commander";
import { parseDuration } from "../../kit/units.ts";
import { interruptible, usage } from "../failure.ts";
import { examples, JSON_OPTION } from "../options.ts";
import { Output } from "../output.ts";
import { Api } from "./api.ts";
import { findSite, type SiteFlags } from "./site.ts";

/** The options of every command that asks a service. */
export type RemoteFlags = SiteFlags & { readonly json?: boolean };
/** Options with a text, with a number, and without a value, that may be missing. */
export type Texts<Names extends string> = { readonly [Name in Names]?: string };
export type Numbers<Names extends string> = { readonly [Name in Names]?: number };
export type Switches<Names extends string> = { readonly [Name in Names]?: boolean };
/** The option of a command that asks for confirmation. */
export const YES_OPTION = ["--yes", "do not ask for confirmation"] as const;
export type YesFlags = RemoteFlags & Switches<"yes">;

/** What a command works with. */
export type Task<Flags extends RemoteFlags = RemoteFlags> = {
  readonly api: Api;
  readonly flags: Flags;
  readonly out: Output;
  readonly signal: AbortSignal;
};

/** Work that asks a service; the words that were typed follow the task. */
type Work<Flags extends RemoteFlags> = (task: Task<Flags>, ...words: never[]) => Promise<void> | void;

/** Arguments that mean the same to every subcommand. */
const ARGUMENTS: Readonly<Record<string, string>> = { app: "the app's name", run: "the run's id" };

/** Adds a subcommand that asks a service, such as `get <app>`. Examples may leave out the command itself. */
export function asking<Flags extends RemoteFlags>(
  parent: Command,
  name: string,
  summary: string,
  work: Work<Flags>,
  first = "",
  ...more: string[]
): Command {
  const command = parent.command(name).description(summary);
  for (const argument of command.registeredArguments) argument.description = ARGUMENTS[argument.name()] ?? "";
  const typed = `millrace ${parent.name()} ${command.name()}`;
  const whole = (line: string): string => (line.includes("millrace") ? line : `${typed} ${line}`.trimEnd());
  return asks(command, work, ...[first, ...more].map(whole));
}

/** Makes a command ask a service: adds the options that say which, and which project, and how to print. */
export function asks<Flags extends RemoteFlags>(
  command: Command,
  work: Work<Flags>,
  ...lines: string[]
): Command {
  command
    .option("--url <url>", "management address of the service [MILLRACE_URL]")
    .option("--project <id>", "project [MILLRACE_PROJECT]")
    .option("--data-dir <folder>", "use the service that runs on this data directory, whatever else is set")
    .option(...JSON_OPTION);
  return examples(command, ...lines).action(withService(work));
}

/** The action that does the work. */
export function withService<Flags extends RemoteFlags>(
  work: Work<Flags>,
): (...given: unknown[]) => Promise<void> {
  return async (...given) => {
    // The parser gives the words, then the flags, then itself.
    const words = given.slice(0, -2) as never[];
    const flags = given.at(-2) as Flags;
    await interruptible(async (signal) => {
      const api = new Api(await findSite(flags), signal);
      await work({ api, flags, out: new Output(flags), signal }, ...words);
    });
  };
}

/** The entry that a word names: by its id, or by a name that no other entry has; throws if there is not one. */
export function theOne<Entry extends { readonly id: string }>(
  entries: readonly Entry[],
  wanted: string,
  isNamed: (entry: Entry) => boolean,
  problems: { readonly none: string; readonly several: string; readonly hint: string },
): Entry {
  const named = entries.filter(isNamed);
  const found = entries.find(({ id }) => id === wanted) ?? (named.length === 1 ? named[0] : undefined);
  if (found) return found;
  const { none, several, hint } = problems;
  throw usage(`${named.length > 1 ? several : none} ${JSON.stringify(wanted)}`, hint);
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

/** The same of one that takes a time, or how long ago it was; gives the time. */
export function pastTime(option: string): (text: string) => string {
  return (text) => {
    const ago = parseDuration(text);
    if (ago !== null) return new Date(Date.now() - ago * 1000).toISOString();
    if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(Date.parse(text))) return new Date(text).toISOString();
    throw usage(`${option} takes a duration such as 10m or an RFC 3339 time, not ${JSON.stringify(text)}`);
  };
}

/** The same of one that takes one of some words. */
export function oneOf(option: string, words: readonly string[]): (text: string) => string {
  return (text) => {
    if (words.includes(text)) return text;
    throw usage(`${option} takes one of ${words.join(", ")}, not ${JSON.stringify(text)}`);
  };
}

const limit = count("--limit", 1, 9_999_999);
/** The option of a command that lists entries. */
export const LIMIT_OPTION = ["--limit <count>", "how many to show at most", limit, 20] as const;
