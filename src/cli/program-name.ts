import { realpathSync } from "node:fs";
import path from "node:path";
import { PACKAGE_DIR } from "../config/package-files.ts";

type Place = { readonly searchPath: string; readonly cwd: string };

/** How to type this program here: `millrace` if the shell finds it, else its path, relative if it is below the folder. */
export function programName(
  own: string = path.join(PACKAGE_DIR, "bin", "millrace"),
  { searchPath, cwd }: Place = { searchPath: process.env["PATH"] ?? "", cwd: process.cwd() },
): string {
  const found = searchPath
    .split(path.delimiter)
    .map((folder) => realPath(path.resolve(cwd, folder, "millrace")))
    .find((file) => file !== null);
  if (found !== undefined && found === realPath(own)) return "millrace";
  const relative = path.relative(cwd, own);
  if (relative.startsWith("..")) return shellWord(own);
  return shellWord(relative.includes("/") ? relative : `./${relative}`);
}

/** Options that name the service; a value that is no text was not given. */
type SiteOptions = { readonly url?: unknown; readonly project?: unknown; readonly dataDir?: unknown };

/** Commands in a hint that take these options, with their subcommand. */
const ASKING =
  /\bmillrace (?:call|deploy|logs|map|restart|run|whoami|(?:hardware|nodes|projects)(?: (?:create|drain|gpus|list|use)\b)?|(?:apps|batches|builds|containers|files|members|runs|secrets|service-accounts|webhook) [a-z]+)\b/g;
/** Those that take the data directory alone. */
const OPERATING = /\bmillrace (?:doctor|reset-password|storage)\b/g;

/** The options again, for a command that is to reach the same service. */
export function siteOptions({ url, project, dataDir }: SiteOptions): string[] {
  const given = { "--url": url, "--project": project, "--data-dir": dataDir };
  return Object.entries(given).flatMap(([name, value]) => (typeof value === "string" ? [name, value] : []));
}

/** The commands in a hint, as they can be pasted here, with the options that the command at hand was given. */
export function pastable(hint: string, { dataDir, ...others }: SiteOptions): string {
  const withOptions = (command: string, options: SiteOptions): string =>
    [command, ...siteOptions(options).map(shellWord)].join(" ");
  return hint
    .replaceAll(ASKING, (command) => withOptions(command, { dataDir, ...others }))
    .replaceAll(OPERATING, (command) => withOptions(command, { dataDir }))
    .replaceAll(/(?<![\w/.-])millrace (?=[a-z])/g, () => `${programName()} `);
}

/** Text as one word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function realPath(file: string): string | null {
  try {
    return realpathSync(file);
  } catch {
    return null;
  }
}
