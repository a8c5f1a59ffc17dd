import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import type { TestContext } from "vitest";
import { REPOSITORY } from "./source-files.ts";

const execute = promisify(execFile);

/** An interpreter that the tests may use. */
export type FoundPython = { readonly command: string; readonly version: string };

const MINORS = [9, 10, 11, 12, 13, 14];

/**
 * Every Python from 3.9 on that is at hand, one of each minor version: `python3`, `python3.9` and so on by the
 * path, and those that MILLRACE_TEST_PYTHONS lists, divided by colons.
 */
export function findPythons(): FoundPython[] {
  const listed = (process.env["MILLRACE_TEST_PYTHONS"] ?? "").split(":").filter((command) => command !== "");
  const byMinor = new Map<string, FoundPython>();
  for (const command of ["python3", ...listed, ...MINORS.map((minor) => `python3.${minor}`)]) {
    const version = versionOf(command);
    const [major = 0, minor = 0] = (version ?? "").split(".").map(Number);
    if (version === null || major !== 3 || minor < 9) {
      if (listed.includes(command))
        throw new Error(`MILLRACE_TEST_PYTHONS: ${command} is no Python 3.9 or newer`);
      continue;
    }
    const key = `3.${minor}`;
    if (!byMinor.has(key)) byMinor.set(key, { command, version });
  }
  return [...byMinor.values()];
}

/**
 * The path, with an environment of the real `python3` before all else: it is no shim, and has no packages but pip. What
 * a machine's packages do at each start of an interpreter took longer than many a test.
 */
export function pathWithPython(): string {
  const known = process.env["PATH"] ?? "";
  try {
    return [path.join(bareEnvironment(), "bin"), known].join(path.delimiter);
  } catch {
    return known; // The tests that need one will say so.
  }
}

/** Made once for each interpreter. */
function bareEnvironment(): string {
  const ask = (python: string, code: string, ...args: string[]): string =>
    execFileSync(python, ["-I", "-c", code, ...args], { encoding: "utf8" }).trim();
  const python = ask("python3", "import sys; print(sys.executable)");
  const folder = path.join(CACHE, `python-${createHash("sha256").update(python).digest("hex").slice(0, 16)}`);
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const aside = mkdtempSync(`${folder}-`);
  execFileSync(python, ["-I", "-m", "venv", "--without-pip", aside]);
  ask(python, LINK_PIP, ask(path.join(aside, "bin", "python3"), SITE_PACKAGES));
  moveInto(aside, folder);
  return folder;
}

function versionOf(command: string): string | null {
  try {
    const ask = "import sys; print('%d.%d.%d' % sys.version_info[:3])";
    return execFileSync(command, ["-c", ask], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return null; // Not there, or a shim for a version that is not.
  }
}

const CACHE = path.join(REPOSITORY, ".cache");
const SITE_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))";
/** An interpreter that has no pip gives none. */
const LINK_PIP = `import glob, os, sys, sysconfig
own = sysconfig.get_path("purelib")
for path in [os.path.join(own, "pip"), *glob.glob(os.path.join(own, "pip-*.dist-info"))]:
    if os.path.exists(path):
        os.symlink(path, os.path.join(sys.argv[1], os.path.basename(path)))`;
/** All that tests need, so that it is installed once. */
const PACKAGES = ["numpy", "pydantic", "websockets"] as const;
type Package = (typeof PACKAGES)[number];
/** Named after them: one that was made when tests needed fewer is not taken for it. */
const VENV = path.join(CACHE, `test-venv-${PACKAGES.join("-")}`);

/**
 * An interpreter with these packages: `python3` itself if it has them, else an environment made once in the
 * repository's cache. Null where packages cannot be installed.
 */
export async function pythonWith(...packages: Package[]): Promise<string | null> {
  const own = path.join(VENV, "bin", "python");
  for (const command of ["python3", own]) if (await hasPackages(command, packages)) return command;
  try {
    await makeVenv();
  } catch (error) {
    process.stderr.write(`\n${PACKAGES.join(", ")} could not be installed: ${String(error)}\n`);
    return null;
  }
  return (await hasPackages(own, packages)) ? own : null;
}

/** Beside, and then in one step: another test file may be at it too. */
async function makeVenv(): Promise<void> {
  mkdirSync(path.dirname(VENV), { recursive: true });
  const aside = mkdtempSync(`${VENV}-`);
  await execute("python3", ["-m", "venv", "--without-pip", aside]);
  const place = (await execute(path.join(aside, "bin", "python"), ["-c", SITE_PACKAGES])).stdout.trim();
  // Without a pip of its own and without bytecode that is made ahead: together they took five times as long.
  const quiet = ["--quiet", "--disable-pip-version-check", "--no-compile", "--only-binary", ":all:"];
  await execute("python3", ["-m", "pip", "install", ...quiet, "--target", place, ...PACKAGES]);
  moveInto(aside, VENV);
}

/** In one step; what another test run has put there meanwhile stays. */
function moveInto(aside: string, folder: string): void {
  try {
    renameSync(aside, folder);
  } catch (error) {
    rmSync(aside, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

/** Ends a test that needs the packages where there are none, and says so where it will be seen. */
export function skipWithoutPackages(context: TestContext, command: string | null): asserts command is string {
  if (command !== null) return;
  const reason = `NOT TESTED: ${PACKAGES.join(", ")} cannot be installed here`;
  process.stderr.write(`\n${reason}: ${context.task.name}\n`);
  context.skip(reason);
}

async function hasPackages(command: string, packages: readonly Package[]): Promise<boolean> {
  const find =
    "import sys; from importlib.util import find_spec as f; sys.exit(not all(map(f, sys.argv[1:])))";
  return await execute(command, ["-c", find, ...packages]).then(
    () => true,
    () => false,
  );
}
