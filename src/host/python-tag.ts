import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Interpreter } from "./interpreter.ts";

const ANSWER_MS = 60_000;
const ASK = `import platform, sys, sysconfig
print("%d.%d" % sys.version_info[:2], sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag, *platform.libc_ver())`;
const TAG = /^(3\.\d{1,3}) ([!-~]{1,100}) (\w{1,20}) (\d{1,5}(?:\.\d{1,5}){0,3})$/;

/** By the interpreter's path: what it is does not change while the service runs. */
const asked = new Map<string, Promise<string | null>>();

/**
 * Which packages run on a Python: its version, its own tag with the platform in it, and the C library, such as
 * `3.11 cpython-311-x86_64-linux-gnu glibc 2.36`. Null where it does not say. Only for an interpreter of the host.
 */
export async function pythonTag({ path }: Pick<Interpreter, "path">): Promise<string | null> {
  const known = asked.get(path) ?? ask(path);
  asked.set(path, known);
  return await known;
}

async function ask(path: string): Promise<string | null> {
  try {
    const { stdout } = await promisify(execFile)(path, ["-I", "-c", ASK], { timeout: ANSWER_MS });
    const tag = stdout.trim();
    return TAG.test(tag) ? tag : null;
  } catch {
    return null;
  }
}

/** The Python that packages of a tag are for, such as `3.11`; null for what is no tag. */
export function versionOfTag(tag: string): string | null {
  return TAG.exec(tag)?.[1] ?? null;
}

/** Whether packages that were made for one Python run on another: all but a C library of the same age or newer is equal. */
export function runsOn(made: string, here: string): boolean {
  const [, version, abi, libc, libcVersion = ""] = TAG.exec(made) ?? [];
  const [, ...ours] = TAG.exec(here) ?? [];
  if (version === undefined || version !== ours[0] || abi !== ours[1] || libc !== ours[2]) return false;
  return compare(libcVersion, ours[3] ?? "") <= 0;
}

/** Number by number. */
function compare(a: string, b: string): number {
  const others = b.split(".").map(Number);
  for (const [place, part] of a.split(".").map(Number).entries()) {
    const difference = part - (others[place] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
