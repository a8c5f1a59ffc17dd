import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const HARNESS = path.join(REPOSITORY, "python");
const PROGRAM = `
import json, sys
sys.path.insert(0, ${JSON.stringify(HARNESS)})
from millrace_walls.places import Places
from millrace_walls.plan import Plan
try:
    print(json.dumps(Places(Plan(json.loads(sys.argv[1]).items())).read))
except (OSError, ValueError) as error:
    print(json.dumps(str(error)))
`;

/** What an app may read whose packages have this interpreter; or why it cannot be said. */
function readable(dataDir: string, more: Record<string, string> = {}): unknown {
  const own = (name: string): string => path.join(dataDir, name);
  const plan = {
    rung: "landlock",
    network: "true",
    home: "",
    order: "",
    bundle: own("bundles/b"),
    storage: own("storage/p-1"),
    scratch: own("scratch/s-1"),
    environment: own("environments/e"),
    program: own("environments/e/bin/python"),
    harness: HARNESS,
    data_dir: dataDir,
    ...more,
  };
  const said = execFileSync("python3", ["-I", "-c", PROGRAM, JSON.stringify(plan)], { encoding: "utf8" });
  return JSON.parse(said);
}

function directory(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-places-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ["bundles/b", "storage/p-1", "storage/p-2/lib", "scratch/s-1", "environments/e/bin"])
    mkdirSync(path.join(folder, name), { recursive: true });
  return folder;
}

verifies("walls.places", "an interpreter that leads into the data directory opens nothing there", () => {
  const folder = directory();
  const python = path.join(folder, "environments/e/bin/python");
  mkdirSync(path.join(folder, "storage/p-2/bin"));
  symlinkSync("../../../storage/p-2/bin/python", python);
  const read = readable(folder) as string[];
  const ofDirectory = read.filter((name) => name.startsWith(folder));
  expect(ofDirectory.toSorted()).toEqual([
    path.join(folder, "bundles/b"),
    path.join(folder, "environments/e"),
  ]);
  expect(read).toContain("/usr");
});

verifies("walls.places", "of what is around an interpreter only what an interpreter has is opened", () => {
  const folder = directory();
  const home = directory();
  for (const name of ["bin", "lib", "private"]) mkdirSync(path.join(home, name), { recursive: true });
  symlinkSync(path.join(home, "bin/python"), path.join(folder, "environments/e/bin/python"));
  const read = (readable(folder) as string[]).filter((name) => name.startsWith(home));
  expect(read.toSorted()).toEqual([path.join(home, "bin"), path.join(home, "lib")]);
});

verifies(
  "walls.places",
  "links that lead in a circle, and a data directory that could be read, are refused",
  () => {
    const folder = directory();
    symlinkSync("python3", path.join(folder, "environments/e/bin/python"));
    symlinkSync("python", path.join(folder, "environments/e/bin/python3"));
    expect(readable(folder)).toContain("symbolic links");
    const program = path.join(directory(), "bin/python");
    expect(readable(folder, { program, data_dir: "/usr/share/millrace" })).toContain("is in /usr");
    expect(readable(folder, { program, harness: path.dirname(folder) })).toContain("which apps may read");
  },
);
