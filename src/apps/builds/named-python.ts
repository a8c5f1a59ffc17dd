import path from "node:path";
import { mkdir, rm, symlink } from "../../kit/files.ts";

/**
 * Makes a folder in which an interpreter has the names that commands call it by: the host may know it as
 * `python3.12` alone, or know `python` as another one.
 */
export async function namePython(python: string, folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const name of ["python", "python3"]) await symlink(python, path.join(folder, name));
}
