import { execFileSync } from "node:child_process";
import path from "node:path";

/**
 * The search path with the folder of the real Python in front. Where `python3` is a shim, a script that looks for the
 * Python at each start, that took a tenth of all processor time.
 */
export function pythonFirst(searchPath: string): string {
  try {
    const python = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" });
    return [path.dirname(python.trim()), searchPath].join(path.delimiter);
  } catch {
    // The tests that need one say so.
    return searchPath;
  }
}
