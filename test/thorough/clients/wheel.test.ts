import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { VERSION } from "../../../src/config/package-files.ts";
import { findPythons } from "../../support/pythons.ts";
import { testService } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const run = promisify(execFile);
const PROGRAM = `
import sys
import millrace
assert "http.client" not in sys.modules
import millrace_client
assert millrace.Millrace is millrace_client.Millrace and millrace.AppFailed is millrace_client.AppFailed
try:
    millrace.run.id
except RuntimeError as error:
    print(error)
print([millrace.SKIP, millrace.END])
print(millrace.Millrace(*sys.argv[1:4]).run("hello", {"name": "Ada"}).result)
`;
/** Each of these is an error, unless the type checker knows what the package declares. */
const TYPED = `
import millrace
from typing import assert_type

assert_type(millrace.run.id, str)
assert_type(millrace.run.attempt, int)
assert_type(millrace.run.deadline, "float | None")
caller = millrace.Millrace("http://127.0.0.1", "p-1")
assert_type(caller, millrace.Millrace)
assert_type(caller.run("hello").run_id, str)
def step(paused: "frozenset[str]") -> "dict[str, object]":
    return {each: millrace.SKIP if each in paused else millrace.END for each in paused}
caller.nothing
millrace.nothing
`;

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), "millrace-wheel-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

async function build(): Promise<string> {
  const { stdout } = await run(process.execPath, [
    path.join(REPOSITORY, "scripts/build-python.ts"),
    folder(),
  ]);
  return stdout.trim();
}

/** An environment with the wheel, and its interpreter. */
async function install(wheel: string, python: string): Promise<string> {
  const environment = folder();
  const own = path.join(environment, "bin", "python");
  await run(python, ["-I", "-m", "venv", "--without-pip", environment]);
  // The pip of the interpreter: one of its own would take longer than the test.
  const pip = [
    "-m",
    "pip",
    "--python",
    own,
    "install",
    "--quiet",
    "--no-index",
    "--disable-pip-version-check",
  ];
  await run(python, [...pip, wheel]);
  return own;
}

verifies("helper.wheel", "it is the same each time, and works on each Python that is at hand", async () => {
  const [wheel, again] = await Promise.all([build(), build()]);
  expect(path.basename(wheel)).toBe(`millrace-${VERSION}-py3-none-any.whl`);
  expect(readFileSync(again).equals(readFileSync(wheel))).toBe(true);
  const { service } = await testService({
    hello: { main: "def run(name):\n    return 'Hello ' + name" },
  });
  const { projectId, token } = service.owner;
  for (const { command, version } of findPythons().slice(0, 2)) {
    const python = await install(wheel, command);
    const { stdout } = await run(python, [
      "-I",
      "-W",
      "error",
      "-c",
      PROGRAM,
      service.apiUrl,
      projectId,
      token,
    ]);
    expect([version, stdout.trim().split("\n")]).toEqual([
      version,
      [
        "millrace.run is known only inside a run: a Millrace service does not run this code",
        "[millrace.SKIP, millrace.END]",
        "Hello Ada",
      ],
    ]);
  }
});

test("a type checker knows what the installed package declares", async () => {
  const python = await install(await build(), findPythons()[0]?.command ?? "python3");
  const file = path.join(folder(), "typed.py");
  writeFileSync(file, TYPED);
  const pyright = fileURLToPath(import.meta.resolve("pyright/index.js"));
  const options = [
    "--pythonpath",
    python,
    "--pythonversion",
    "3.12",
    "--level",
    "warning",
    "--outputjson",
    file,
  ];
  const { stdout } = await run(process.execPath, [pyright, ...options]).catch(
    (error: { stdout: string }) => error,
  );
  const { generalDiagnostics } = JSON.parse(stdout) as {
    generalDiagnostics: { message: string }[];
  };
  expect(generalDiagnostics).toMatchObject([
    { message: expect.stringContaining('Cannot access attribute "nothing" for class "Millrace"') },
    { message: '"nothing" is not a known attribute of module "millrace"' },
  ]);
});
