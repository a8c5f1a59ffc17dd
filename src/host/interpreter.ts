import { execFile } from "node:child_process";
import { promisify } from "node:util";

const OLDEST = [3, 9] as const;
/** Generous: on an overloaded machine, 20 s were once not enough for a shim and its Python. */
const ANSWER_MS = 60_000;

export type Interpreter = {
  /** The real program: the one on the path may be a shim that takes 100 ms to find it. */
  readonly path: string;
  readonly version: string;
};

/** An interpreter that was asked. */
export type FoundInterpreter = Interpreter & {
  /** The program that environments link to which are made with it: no link itself, and in no environment. */
  readonly base: string;
};

const ASK = `import os, sys
print(sys.executable); print('%d.%d.%d' % sys.version_info[:3])
print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))`;

/** Asks `python3`, or whatever the settings name, where and what it is. */
export async function findInterpreter(command: string): Promise<FoundInterpreter> {
  let answer: string;
  try {
    answer = (await promisify(execFile)(command, ["-c", ASK], { timeout: ANSWER_MS })).stdout;
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === "EACCES" ? " (permission denied)" : "";
    throw new Error(
      `cannot run ${command}${why}: install Python 3.9 or newer, or point MILLRACE_PYTHON at one`,
      {
        cause: error,
      },
    );
  }
  const [path = "", version = "", base = path] = answer.trim().split("\n");
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major !== OLDEST[0] || minor < OLDEST[1]) {
    throw new Error(`${command} is Python ${version}; Millrace needs 3.9 or newer (set MILLRACE_PYTHON)`);
  }
  return { path, version, base };
}
