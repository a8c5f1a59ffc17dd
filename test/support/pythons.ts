import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "vitest";
import { REPOSITORY } from "./source-files.ts";

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

const VENV = path.join(REPOSITORY, ".cache", "test-venv");
const PACKAGES = ["numpy", "pydantic"];

/**
 * An interpreter with numpy and pydantic: `python3` itself if it has them, else an environment made once in
 * the repository's cache. Null where packages cannot be installed.
 */
export function pythonWithPackages(): string | null {
  const own = path.join(VENV, "bin", "python");
  for (const command of ["python3", own]) if (hasPackages(command)) return command;
  try {
    if (!existsSync(own)) execFileSync("python3", ["-m", "venv", VENV], { stdio: "ignore" });
    const install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...PACKAGES];
    execFileSync(own, install, { stdio: "ignore", timeout: 50_000 });
  } catch {
    return null;
  }
  return hasPackages(own) ? own : null;
}

/** Ends a test that needs the packages where there are none, and says so where it will be seen. */
export function skipWithoutPackages(context: TestContext, command: string | null): void {
  if (command !== null) return;
  const reason = `NOT TESTED: ${PACKAGES.join(" and ")} cannot be installed here`;
  process.stderr.write(`\n${reason}: ${context.task.name}\n`);
  context.skip(reason);
}

function hasPackages(command: string): boolean {
  try {
    execFileSync(command, ["-c", `import ${PACKAGES.join(", ")}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
