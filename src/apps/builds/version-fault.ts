import path from "node:path";
import { lstat, readdir, realpath } from "../../kit/files.ts";
import { existsSync } from "node:fs";
import { type Containers, readImageRecord } from "../../host/containers/containers.ts";
import { pythonFor } from "../../host/host-pythons.ts";
import { findInterpreter } from "../../host/interpreter.ts";
import type { PythonWish } from "../../model/app-config.ts";
import { readBlobRecord, READY } from "./environments.ts";
import { smallText } from "./moved-environments.ts";

/** Where apps write below the data directory; each may be a link to another disk. */
const OF_APPS = ["", "bundles", "caches", "environments", "once", "scratch", "storage", "work"];
/** Which is the host's where apps have no view of their own. */
const SHARED_MEMORY = "/dev/shm";

/** Whether a program, by its real path, is the host's: nothing that an app or a build can have put there. */
export async function isOfHost(program: string, dataDir: string): Promise<boolean> {
  const found = await lstat(program).catch(() => null);
  if (!found?.isFile() || ![0, process.getuid?.()].includes(found.uid)) return false;
  const storage = path.join(dataDir, "storage");
  const projects = await readdir(storage).catch(() => []);
  const theirs = [
    ...OF_APPS.map((name) => path.join(dataDir, name)),
    ...projects.map((name) => path.join(storage, name)),
    SHARED_MEMORY,
  ];
  for (const folder of theirs) {
    const real = await realpath(folder).catch(() => null);
    if (real !== null && program.startsWith(real + path.sep)) return false;
  }
  return true;
}

const INTERPRETER = /^(?:python|pypy)[\d.]*$/;

/** What a version was made into: whole paths, and the Python it asks for. */
export type BuiltVersion = {
  readonly bundle: string;
  readonly environment: string | null;
  /** Null where any will do. */
  readonly python: PythonWish | null;
};

/** What a version lacks to start; an environment can be made again. */
export type VersionFault = {
  readonly what: "bundle" | "environment" | "interpreter";
  readonly message: string;
};

/** Whether a version has its bundle, packages and Python; images are looked for only with `containers`. */
export async function versionFault(
  { bundle, environment, python }: BuiltVersion,
  own: string,
  dataDir: string,
  containers: Containers | null = null,
): Promise<VersionFault | null> {
  if (!existsSync(bundle)) return { what: "bundle", message: `its bundle ${bundle} is missing` };
  if (environment !== null) {
    const message = await environmentFault(environment, dataDir, containers);
    return message === null ? null : { what: "environment", message };
  }
  if (python === null) return null;
  const found = await pythonFor(python, own, process.env);
  return found ? null : { what: "interpreter", message: `the host has no Python ${python.version}` };
}

async function environmentFault(folder: string, dataDir: string, containers: Containers | null) {
  if (!existsSync(path.join(folder, READY))) return `its environment ${folder} is missing`;
  const image = readImageRecord(folder);
  if (image)
    return (await containers?.hasImage(image)) !== false
      ? null
      : `its image ${image.id.slice(0, 19)} is missing`;
  // Its packages are for other machines.
  if (readBlobRecord(folder)) return null;
  const inside = path.join(folder, "bin", "python");
  // Not as the environment's: its packages may have code that runs at every start of Python.
  const real = await realpath(inside).catch(() => "");
  // One that a build has put there is the app's own: the service must not run it.
  if (real !== "" && !(await isOfHost(real, dataDir))) return null;
  const python = INTERPRETER.test(path.basename(real)) ? await findInterpreter(real).catch(() => null) : null;
  if (!python) return `the interpreter of its environment, ${inside}, is missing`;
  const settings = await smallText(path.join(folder, "pyvenv.cfg"));
  // Packages lie in a folder that is named after the version: another one does not find them.
  const made = /^version\S* *= *(\d+\.\d+)/m.exec(settings)?.[1];
  if (made === undefined || python.version.startsWith(`${made}.`)) return null;
  return `its environment ${folder} was created for Python ${made}, but its interpreter is now ${python.version}`;
}
