import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import path from "node:path";
import { bundle } from "../../scripts/bundle.ts";
import { REPOSITORY } from "./source-files.ts";

const CACHE = path.join(REPOSITORY, "node_modules", ".cache", "millrace");

/** Programs of the sources that tests have bent to their purpose (`testProgram` in `command-line.ts`). */
const TEST_PROGRAMS = [
  "kill-point",
  "clocked-service",
  "many-commands",
  "store-writer",
  "schedule-node",
  "remote/seat-service",
].map((name) => ({ name: `test/${name}`, file: `test/support/${name}.ts` }));

/** What `dist/` does not hold, and the service looks for in its package. */
const LINKED = ["python", "examples", "docs", "packaging", "node_modules"];

/** The folder of a package built from the sources as they are now; built once for each state of them. */
export async function builtPackage(): Promise<string> {
  const folder = path.join(CACHE, stateOfSources());
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const aside = mkdtempSync(path.join(CACHE, "building-"));
  const programs = TEST_PROGRAMS.map(({ name, file }) => [name, path.join(REPOSITORY, file)]);
  await bundle(path.join(aside, "dist"), Object.fromEntries(programs));
  for (const name of ["package.json", "bin"]) {
    cpSync(path.join(REPOSITORY, name), path.join(aside, name), { recursive: true });
  }
  for (const name of LINKED) symlinkSync(path.join(REPOSITORY, name), path.join(aside, name));
  try {
    renameSync(aside, folder);
  } catch (error) {
    rmSync(aside, { recursive: true, force: true });
    // Another run of the tests may have been faster.
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

function stateOfSources(): string {
  const hash = createHash("sha256");
  const programs = [
    "test/support/{kill-point,clocked-service,held-clock,many-commands,store-writer,schedule-node,sample-run}.ts",
    "test/support/{process-tree,test-settings}.ts",
    "test/support/remote/{seat-service,local-place}.ts",
  ];
  const files = globSync(["src/**/*.ts", "scripts/bundle.ts", "bin/*", "package-lock.json", ...programs], {
    cwd: REPOSITORY,
  });
  for (const file of files.toSorted())
    hash.update(`${file}\0`).update(readFileSync(path.join(REPOSITORY, file)));
  return hash.digest("hex").slice(0, 16);
}
