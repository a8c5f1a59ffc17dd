import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect, test } from "vitest";

import { loadAppConfig } from "../../../src/config/app-config.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

const HOST = { cpuCount: 4 };
const root = mkdtempSync(join(tmpdir(), "millrace-app-config-"));
afterAll(() => rmSync(root, { recursive: true }));

verifies(
  ["config.millrace-toml", "config.cerebrium-toml"],
  "a folder's millrace.toml is read before its cerebrium.toml, and neither is fine",
  () => {
    const dir = folder("both");
    expect(loadAppConfig(dir, { host: HOST }).warnings).toEqual([]);
    expect(loadAppConfig(dir, { host: HOST }).config.scaling.cooldownSeconds).toBe(30);

    writeFileSync(join(dir, "cerebrium.toml"), "[cerebrium.scaling]\ncooldown = 5");
    expect(loadAppConfig(dir, { host: HOST }).config.scaling.cooldownSeconds).toBe(5);

    writeFileSync(join(dir, "millrace.toml"), "[scaling]\ncooldown = 6\ncooldwn = 7");
    const loaded = loadAppConfig(dir, { host: HOST, payload: { cooldownPeriodSeconds: null } });
    expect(loaded.config.scaling.cooldownSeconds).toBe(6);
    expect(loaded.warnings).toEqual([
      "millrace.toml is used; cerebrium.toml is ignored",
      "scaling.cooldwn is not a known key; did you mean scaling.cooldown?",
    ]);
  },
);

test("a config file that is a folder, a pipe, too large or not UTF-8 is a problem, not a crash or a wait", () => {
  const problem = (name: string, make: (path: string) => void): readonly string[] => {
    const dir = folder(name);
    make(join(dir, "millrace.toml"));
    return problemsIn(dir);
  };
  expect(problem("folder", (path) => mkdirSync(path))).toEqual(["millrace.toml is not a regular file"]);
  expect(problem("pipe", (path) => execFileSync("mkfifo", [path]))).toEqual([
    "millrace.toml is not a regular file",
  ]);
  expect(problem("large", (path) => writeFileSync(path, "#".repeat(70_000)))).toEqual([
    "millrace.toml must be at most 65536 bytes, got 70000",
  ]);
  expect(problem("binary", (path) => writeFileSync(path, Buffer.from([0x61, 0xff, 0xfe])))).toEqual([
    "millrace.toml is not UTF-8",
  ]);
});

verifies(
  "helper.shadowed",
  "a bundle with a millrace module of its own is warned of, unless it is a server",
  () => {
    const dir = folder("hiding");
    writeFileSync(join(dir, "millrace.toml"), "");
    mkdirSync(join(dir, "millrace"));
    expect(loadAppConfig(dir, { host: HOST }).warnings).toEqual([]);
    writeFileSync(join(dir, "millrace", "__init__.py"), "");
    writeFileSync(join(dir, "millrace.py"), "");
    expect(loadAppConfig(dir, { host: HOST }).warnings).toEqual(
      ["millrace/__init__.py", "millrace.py"].map(
        (file) =>
          `${file} is imported instead of the service's module millrace, which has millrace.run: rename it`,
      ),
    );
    writeFileSync(
      join(dir, "millrace.toml"),
      '[runtime.custom]\nentrypoint = ["python", "main.py"]\nport = 8000\n',
    );
    expect(loadAppConfig(dir, { host: HOST }).warnings).toEqual([]);
  },
);

function folder(name: string): string {
  const dir = join(root, name);
  mkdirSync(dir);
  return dir;
}

function problemsIn(dir: string): readonly string[] {
  try {
    loadAppConfig(dir);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the folder was accepted");
}
