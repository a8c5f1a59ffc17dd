import { execFile, spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { PYTHON_DIR } from "../config/package-files.ts";
import { withPipes } from "./processes.ts";

const OLDEST = [3, 9] as const;
/** Generous: 20 s were once not enough for a shim on an overloaded machine. */
const ANSWER_MS = 60_000;

export type Interpreter = {
  /** The real program: the one on the PATH may be a shim that takes 100 ms. */
  readonly path: string;
  readonly version: string;
};

export type FoundInterpreter = Interpreter & {
  /** The program that its environments link to: not a link itself, and not in an environment. */
  readonly base: string;
};

const ASK = `import os, sys
print(sys.executable); print('%d.%d.%d' % sys.version_info[:3])
print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))`;

/** Asks a Python command for its path and version. */
export async function findInterpreter(command: string): Promise<FoundInterpreter> {
  let answer: string;
  try {
    answer = (await promisify(execFile)(command, ["-c", ASK], { timeout: ANSWER_MS })).stdout;
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === "EACCES" ? " (permission denied)" : "";
    const remedy = "install Python 3.9 or newer, or point MILLRACE_PYTHON at one";
    throw new Error(`cannot run ${command}${why}: ${remedy}`, { cause: error });
  }
  const [path = "", version = "", base = path] = answer.trim().split("\n");
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major !== OLDEST[0] || minor < OLDEST[1]) {
    throw new Error(`${command} is Python ${version}; Millrace needs 3.9 or newer (set MILLRACE_PYTHON)`);
  }
  return { path, version, base };
}

const ASK_TAG = `import platform, sys, sysconfig
print("%d.%d" % sys.version_info[:2], sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag, *platform.libc_ver())`;
const TAG = /^(3\.\d{1,3}) ([!-~]{1,100}) (\w{1,20}) (\d{1,5}(?:\.\d{1,5}){0,3})$/;

/** By the interpreter's path: the answer does not change while the service runs. */
const asked = new Map<string, Promise<string | null>>();

/**
 * The tag of packages that run on a Python: version, ABI tag with the platform, and C library, such as
 * `3.11 cpython-311-x86_64-linux-gnu glibc 2.36`. Null if unknown. Only for an interpreter of the host.
 */
export async function pythonTag({ path }: Pick<Interpreter, "path">): Promise<string | null> {
  const known = asked.get(path) ?? ask(path);
  asked.set(path, known);
  return await known;
}

async function ask(path: string): Promise<string | null> {
  try {
    const { stdout } = await promisify(execFile)(path, ["-I", "-c", ASK_TAG], { timeout: ANSWER_MS });
    const tag = stdout.trim();
    return TAG.test(tag) ? tag : null;
  } catch {
    return null;
  }
}

/** The Python version of a tag, such as `3.11`; null for an invalid tag. */
export function versionOfTag(tag: string): string | null {
  return TAG.exec(tag)?.[1] ?? null;
}

/** Whether packages for one Python run on another: everything is equal, and the C library is not older. */
export function runsOn(made: string, here: string): boolean {
  const [, version, abi, libc, libcVersion = ""] = TAG.exec(made) ?? [];
  const [, ...ours] = TAG.exec(here) ?? [];
  if (version === undefined || version !== ours[0] || abi !== ours[1] || libc !== ours[2]) return false;
  return compare(libcVersion, ours[3] ?? "") <= 0;
}

function compare(a: string, b: string): number {
  const others = b.split(".").map(Number);
  const differences = a.split(".").map((part, place) => Number(part) - (others[place] ?? 0));
  return differences.find((difference) => difference !== 0) ?? 0;
}

/** Arguments that run a module in isolation: no variable, file or package can change what runs. */
export function startOf(module: `millrace_${"agent" | "walls" | "storage"}.${string}`): string[] {
  const code = `import sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)}); from ${module} import main; main()`;
  return ["-I", "-S", "-c", code];
}

/** Runs a module with a question on its stdin, and returns its output. Throws the last line of its stderr if it has none. */
export async function askModule(
  python: string,
  module: Parameters<typeof startOf>[0],
  question: object,
  timeout?: number,
): Promise<string> {
  const child = withPipes(spawn(python, startOf(module), { env: {}, cwd: "/", timeout }));
  child.stdin.on("error", () => {}); // It ended before it read: its stderr says why.
  child.stdin.end(`${JSON.stringify(question)}\n`);
  const failed = new Promise<never>((_, reject) => void child.once("error", reject));
  const outputs = Promise.all([text(child.stdout), text(child.stderr)]);
  const [said, complaint] = await Promise.race([outputs, failed]);
  if (said.trim() === "") throw new Error(complaint.trim().split("\n").at(-1) || "Python gave no answer");
  return said;
}
