import { existsSync } from "node:fs";
import path from "node:path";
import { findInterpreter } from "./interpreter.ts";
import type { Interpreter } from "./interpreter.ts";

/** The minor versions of Python 3 that are looked for. */
const MINORS = [9, 10, 11, 12, 13, 14, 15];

/** What was found, by the place it was looked for in: asking one takes up to 200 ms where it is a shim. */
const found = new Map<string, Promise<Interpreter | null>>();

/** The host's `python3.<minor>`: the first on the path that runs and is what its name says; null for none. */
export async function hostPython(minor: number, searchPath: string): Promise<Interpreter | null> {
  for (const folder of searchPath.split(path.delimiter)) {
    const command = path.join(folder, `python3.${minor}`);
    if (!path.isAbsolute(command) || !existsSync(command)) continue;
    const python = await askOnce(command);
    if (python?.version.startsWith(`3.${minor}.`)) return python;
  }
  return null;
}

/** The Python of a version such as "3.12": the one that `own` starts if it is that, else the host's; null for none. */
export async function pythonOfVersion(
  version: string,
  own: string,
  searchPath: string,
): Promise<Interpreter | null> {
  const [, minor = ""] = version.split(".");
  const python = await askOnce(own);
  if (python?.version.startsWith(`3.${minor}.`)) return python;
  return await hostPython(Number(minor), searchPath);
}

/** Every Python of the host, one of each minor version, the oldest first. */
export async function hostPythons(searchPath: string): Promise<Interpreter[]> {
  const pythons = await Promise.all(MINORS.map((minor) => hostPython(minor, searchPath)));
  return pythons.filter((python) => python !== null);
}

async function askOnce(command: string): Promise<Interpreter | null> {
  const asked = found.get(command) ?? findInterpreter(command).catch(() => null);
  found.set(command, asked);
  const python = await asked;
  // Not remembered: a Python that does not run today may be repaired tomorrow.
  if (python === null) found.delete(command);
  return python;
}
