import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
    level: "landlock",
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

/** A folder as an interpreter has it, with something beside that is not the interpreter's. */
function prefix(folder: string): string {
  for (const name of ["bin", "lib", "share", "private"])
    mkdirSync(path.join(folder, name), { recursive: true });
  writeFileSync(path.join(folder, "bin/python3.12"), "");
  return folder;
}

const below = (read: unknown, folder: string): string[] =>
  (read as string[]).filter((name) => name.startsWith(folder)).toSorted();

verifies("walls.places", "of what is around an interpreter only what an interpreter has is opened", () => {
  const folder = directory();
  const python = prefix(directory());
  const interpreter = path.join(python, "bin/python3.12");
  const opened = ["bin", "bin/python3.12", "lib", "share"].map((name) => path.join(python, name));
  expect(below(readable(folder, { interpreter }), python)).toEqual(opened);
  // However it is reached; and what is around a link is not the interpreter's.
  const links = prefix(directory());
  symlinkSync(interpreter, path.join(links, "bin/python3"));
  const linked = readable(folder, { interpreter: path.join(links, "bin/python3") });
  expect([below(linked, python), below(linked, links)]).toEqual([opened, []]);
});

verifies(
  "walls.places",
  "of a home directory that holds an interpreter its settings and data are not opened",
  () => {
    const folder = directory();
    const home = prefix(directory());
    const local = prefix(path.join(home, ".local"));
    for (const place of [home, local]) {
      const read = readable(folder, { interpreter: path.join(place, "bin/python3.12") });
      const opened = ["bin", "bin/python3.12", "lib"].map((name) => path.join(place, name));
      expect(below(read, place)).toEqual(opened);
    }
  },
);

verifies(
  "walls.places",
  "a copied interpreter of a host's environment has the library that it was made with",
  () => {
    const folder = directory();
    const environment = prefix(directory());
    const python = prefix(directory());
    writeFileSync(path.join(environment, "pyvenv.cfg"), `version = 3.12.1\nhome = ${python}/bin\n`);
    const read = readable(folder, { interpreter: path.join(environment, "bin/python3.12") });
    expect(below(read, python)).toEqual(["bin", "lib", "share"].map((name) => path.join(python, name)));
    expect(below(read, environment)).toContain(path.join(environment, "pyvenv.cfg"));
    // Nothing of the host's settings, whatever it is made with.
    writeFileSync(path.join(environment, "pyvenv.cfg"), "home = /\n");
    const odd = readable(folder, { interpreter: path.join(environment, "bin/python3.12") }) as string[];
    expect(odd).not.toContain("/etc");
  },
);

verifies("walls.places", "no interpreter that packages link to is opened unless the service names it", () => {
  const folder = directory();
  const home = prefix(directory());
  symlinkSync(path.join(home, "bin/python3.12"), path.join(folder, "environments/e/bin/python"));
  expect(below(readable(folder), home)).toEqual([]);
  // Nor where it is not the program that is started.
  expect(below(readable(folder, { program: "/bin/sh" }), home)).toEqual([]);
  expect(below(readable(folder, { interpreter: path.join(home, "bin/python3.12") }), home)).not.toEqual([]);
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
