import type { DeploymentConfig } from "../../model/app-config.ts";
import { BuildError } from "./build-error.ts";
import { readBundleText } from "./bundle-files.ts";
import { insteadOfApt, usesApt } from "./missing-tools.ts";
import { runStep } from "./run-step.ts";
import type { BuildSite } from "./site.ts";

/** A command of a build. */
export type BuildCommand = {
  /** What `/bin/sh` is given. */
  readonly text: string;
  /** It installs packages, as far as its words tell. */
  readonly installs: boolean;
  /** It installs system packages. */
  readonly usesApt: boolean;
};

/** The keys that hold commands, and the file that clients make of each. */
const SOURCES = {
  pre_build_commands: { key: "preBuildCommands", file: "pre_build_commands.sh" },
  shell_commands: { key: "shellCommands", file: "shell_commands.sh" },
} as const;
export type CommandKind = keyof typeof SOURCES;

/** A line that does nothing: clients begin such a file with `set -e`, whatever follows. */
const NOTHING = /^\s*(?:#.*|set -e\s*)?$/;
const INSTALLERS = /\b(pip[\d.]*|uv)\b/;

/**
 * The commands of one kind: those of the configuration, and only if it has none those of the file that clients
 * make of the same key, so that nothing runs twice.
 */
export async function readCommands(
  kind: CommandKind,
  config: DeploymentConfig,
  bundleDir: string,
): Promise<readonly BuildCommand[]> {
  const { key, file } = SOURCES[kind];
  const texts = config[key];
  if (texts.length > 0) return texts.map((text) => ({ text, ...tasksOf(text) }));
  const script = await readBundleText(bundleDir, file);
  if (script === null || !script.split("\n").some((line) => !NOTHING.test(line))) return [];
  return [{ text: `/bin/sh -e ./${file}`, ...tasksOf(script) }];
}

function tasksOf(text: string): Omit<BuildCommand, "text"> {
  return { installs: INSTALLERS.test(text), usesApt: usesApt(text) };
}

/** What commands find. */
export type CommandPlace = {
  readonly env: Readonly<Record<string, string>>;
  /** The packages that they may use. */
  readonly environment: string | null;
  /** The packages that they may change. */
  readonly own: string | null;
};

/** Runs commands one after the other in the bundle's folder; throws a `BuildError` at the first that fails. */
export async function runCommands(
  kind: CommandKind,
  commands: readonly BuildCommand[],
  { env, environment, own }: CommandPlace,
  site: BuildSite,
): Promise<void> {
  for (const { text, usesApt: isApt } of commands) {
    site.say(`$ ${text}`);
    const step = { program: "/bin/sh", args: ["-c", text], env, onLine: site.say };
    const end = await runStep({ ...step, environment, makes: own }, site);
    if (end.code === 0) continue;
    const words = end.lastWords === "" ? "" : `: ${end.lastWords}`;
    const advice = isApt ? `. ${insteadOfApt(site)}` : "";
    throw new BuildError(`${kind}: "${firstLine(text)}" ended with ${end.detail}${words}${advice}`);
  }
}

function firstLine(text: string): string {
  const [first = ""] = text.trim().split("\n");
  return first === text.trim() ? first : `${first} …`;
}
