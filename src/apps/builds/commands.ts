import type { BuiltImage } from "../../model/app-config.ts";
import { BuildError, type BuildSite, type Env } from "./site.ts";
import { readBundleText } from "./bundle-files.ts";
import { insteadOfApt, usesApt } from "./missing-tools.ts";
import { runStep } from "./run-step.ts";
import type { Requirements } from "./requirements.ts";

export type BuildCommand = {
  readonly text: string;
  /** It installs packages, as far as its words tell. */
  readonly installs: boolean;
  readonly usesApt: boolean;
};

/** The keys that hold commands, and the file that clients make of each. */
const SOURCES = {
  pre_build_commands: { key: "preBuildCommands", file: "pre_build_commands.sh" },
  shell_commands: { key: "shellCommands", file: "shell_commands.sh" },
} as const;
export type CommandKind = keyof typeof SOURCES;

/** A line that does nothing: clients always begin such a file with `set -e`. */
const NOTHING = /^\s*(?:#.*|set -e\s*)?$/;
const INSTALLERS = /\b(pip[\d.]*|uv)\b/;

/** The commands of one kind: the configuration's, or else those of the file that clients make of the same key. */
export async function readCommands(
  kind: CommandKind,
  { config, bundleDir }: BuildSite,
): Promise<readonly BuildCommand[]> {
  const { key, file } = SOURCES[kind];
  const texts = config.deployment[key];
  if (texts.length > 0) return texts.map((text) => ({ text, ...tasksOf(text) }));
  const script = await readBundleText(bundleDir, file);
  if (script === null || !script.split("\n").some((line) => !NOTHING.test(line))) return [];
  return [{ text: `/bin/sh -e ./${file}`, ...tasksOf(script) }];
}

function tasksOf(text: string): Omit<BuildCommand, "text"> {
  return { installs: INSTALLERS.test(text), usesApt: usesApt(text) };
}

type CommandPlace = {
  readonly env: Env;
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

/** Where an app is built: this machine, a container image, or a seat on another machine. `build.ts` has the order. */
export type BuildTarget = {
  /** Throws a `BuildError` if the deploy asks for a check and a Python file does not parse. */
  checkSyntax(): Promise<void>;
  /** Makes an environment that only this build uses; otherwise its packages may be shared. */
  makeOwn(): Promise<void>;
  /** Runs commands in the bundle's folder, with the packages that are installed by then. */
  runCommands(kind: CommandKind, commands: readonly BuildCommand[]): Promise<void>;
  install(requirements: Requirements): Promise<void>;
  /** Compiles the bundle, which is on this machine afterwards; one that offers functions needs a `main.py`. */
  finish(needsMain: boolean): Promise<void>;
  /** Makes what was built last, and says where it is. */
  keep(): Promise<PreparedBuild>;
};

/** Takes a target through the steps of a build. */
export type BuildSteps = (target: BuildTarget, site: BuildSite) => Promise<PreparedBuild>;

/** What a version's replicas are started with. */
export type PreparedBuild = {
  /** The folder of its packages; null when it has none. */
  readonly environment: string | null;
  /** The interpreter that runs it; null for the service's own. */
  readonly python: string | null;
  /** The image that was built for it in the cluster; absent for none. */
  readonly built?: BuiltImage;
};
