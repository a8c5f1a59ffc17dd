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

/** The commands in a hint, as they can be pasted here. */
export function pastable(hint: string): string {
  return hint.replaceAll(/(?<![\w/.-])millrace (?=[a-z])/g, () => `${programName()} `);
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
