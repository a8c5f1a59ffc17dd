import { execFile, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chownSync,
  copyFileSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { parse } from "yaml";
import { VERSION } from "../../../src/config/package-files.ts";
import { Command, run, scratchDirectory } from "../../support/command-line.ts";
import { processesIn } from "../../support/leak-check.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const execute = promisify(execFile);
const PACKAGE = `millrace-${VERSION}.tgz`;
const WHEEL = `millrace-${VERSION}-py3-none-any.whl`;
const CHART = `millrace-chart-${VERSION}.tgz`;
const BOM = `millrace-${VERSION}.cdx.json`;
/** An ordinary user; not `nobody`, as whom the tests' Postgres runs. */
const USER = 61_234;

let folder = "";
/** A commit of the files as they are: a test of them cannot wait until they are committed. */
let commit = "";

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "millrace-release-test-"));
  const who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
  const { stdout } = await execute("git", [...who, "stash", "create"], { cwd: REPOSITORY });
  commit = stdout.trim() || "HEAD";
  await release("first");
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Makes the release in a folder of that name, and returns its files by their names. */
async function release(name: string, umask = "022"): Promise<Map<string, Buffer>> {
  const out = path.join(folder, name);
  const script = `umask ${umask}; exec "$0" scripts/release.ts --commit "$1" --out "$2"`;
  await execute("sh", ["-c", script, process.execPath, commit, out], { cwd: REPOSITORY });
  return filesOf(out);
}

function filesOf(out: string): Map<string, Buffer> {
  return new Map(readdirSync(out).map((file) => [file, readFileSync(path.join(out, file))]));
}

verifies(
  "packaging.release",
  "equal commits make equal files, whose checksums and versions are right",
  async () => {
    const files = filesOf(path.join(folder, "first"));
    expect([...files.keys()].toSorted()).toEqual(["SHA256SUMS", WHEEL, BOM, PACKAGE, CHART].toSorted());
    // Elsewhere, by somebody whose files others may not read.
    const again = await release("second", "077");
    expect(
      [...again].filter(([name, bytes]) => !files.get(name)?.equals(bytes)).map(([name]) => name),
    ).toEqual([]);
    const [sums] = [...files].filter(([name]) => name === "SHA256SUMS").map(([, bytes]) => String(bytes));
    const lines = [...files]
      .filter(([name]) => name !== "SHA256SUMS")
      .map(([name, bytes]) => `${createHash("sha256").update(bytes).digest("hex")}  ${name}\n`);
    expect(sums?.match(/.*\n/g)?.toSorted()).toEqual(lines.toSorted());
    const unpacked = scratchDirectory();
    await execute("tar", ["-xzf", path.join(folder, "first", CHART)], { cwd: unpacked });
    const chart = parse(readFileSync(path.join(unpacked, "millrace/Chart.yaml"), "utf8")) as object;
    expect(chart).toMatchObject({ version: VERSION, appVersion: VERSION });
    const { stdout } = await execute("tar", ["-tzf", path.join(folder, "first", PACKAGE)]);
    expect(
      stdout.split("\n").filter((name) => /__pycache__|^package\/dist\/(?:python|release)\//.test(name)),
    ).toEqual([]);
    // Its files are not compressed.
    expect(files.get(WHEEL)?.includes(`\nName: millrace\nVersion: ${VERSION}\n`)).toBe(true);
  },
);

describe.skipIf(!hasRegistry())("on a machine with npm alone", () => {
  verifies(
    ["packaging.clean", "packaging.client", "packaging.release"],
    "npx starts the package, a TypeScript program calls it, and the bill names what is installed",
    async () => {
      const home = scratchDirectory();
      const work = path.join(home, "work");
      mkdirSync(work);
      copyFileSync(path.join(folder, "first", PACKAGE), path.join(work, PACKAGE));
      const documented = `npx --yes ./${PACKAGE} start`;
      expect(readFileSync(path.join(REPOSITORY, "docs/install.md"), "utf8")).toContain(`\n${documented}\n`);
      const { stdout: npm } = await execute("sh", ["-c", "command -v npm"]);
      const bare = ["-i", `HOME=${home}`, `PATH=${path.dirname(npm.trim())}:/usr/bin:/bin`];
      const isRoot = process.getuid?.() === 0;
      const user = ["--reuid", `${USER}`, "--regid", `${USER}`, "--clear-groups", "--inh-caps=-all", "env"];
      const [runner, before] = isRoot ? (["setpriv", [...user, ...bare]] as const) : (["env", bare] as const);
      if (isRoot) for (const each of [home, work, path.join(work, PACKAGE)]) chownSync(each, USER, USER);

      const [npx = "", ...words] = documented.split(" ");
      const ports = ["--api-port", "0", "--base-port", "0"];
      const command = new Command(runner, [...before, npx, ...words, ...ports], { cwd: work });
      const [, url = "", project = "", token = ""] = await command.printed(
        /'(\S+)\/v4\/([^/]+)\/hello\/run'[^]*?Bearer (\S+)'/,
      );

      const consumer = path.join(home, "program");
      mkdirSync(consumer);
      if (isRoot) chownSync(consumer, USER, USER);
      // What npx has fetched is enough.
      const install = ["npm", "install", "--offline", "--no-audit", "--no-fund", `../work/${PACKAGE}`];
      const installed = await run(runner, [...before, ...install], { cwd: consumer });
      expect([installed.code, installed.code === 0 ? "" : installed.stderr]).toEqual([0, ""]);
      writeFileSync(path.join(consumer, "program.mts"), PROGRAM);
      writeFileSync(path.join(consumer, "wrong.mts"), WRONG);
      const compiler = path.join(REPOSITORY, "node_modules/typescript/bin/tsc");
      for (const options of [
        ["--module", "nodenext"],
        ["--module", "preserve", "--moduleResolution", "bundler"],
      ]) {
        const args = [compiler, "--strict", "--target", "es2024", "--types", "", ...options];
        const told = await run(process.execPath, [...args, "program.mts", "wrong.mts"], { cwd: consumer });
        expect([told.code, told.stdout]).toEqual([0, ""]);
      }
      const env = { MILLRACE_URL: url, MILLRACE_PROJECT: project, MILLRACE_TOKEN: token };
      const called = await run(process.execPath, ["program.mjs"], { cwd: consumer, env });
      expect([called.stdout, called.stderr]).toEqual(["Hello, Ada!\n", ""]);

      expect(await command.interrupt()).not.toBe("SIGKILL");
      await until("nothing of it is left", () => processesIn(home).length === 0);
      expect(billed()).toEqual(expect.arrayContaining(installedIn(consumer)));
      // The rest is for other machines.
      const rest = billed().filter((each) => !installedIn(consumer).includes(each));
      expect(rest.filter((each) => !each.startsWith("node-linux-"))).toEqual([]);
    },
  );
});

const PROGRAM = `import { Millrace } from "millrace/client";
declare const process: { env: Record<string, string | undefined> };
const { MILLRACE_URL: url = "", MILLRACE_PROJECT: project = "", MILLRACE_TOKEN: token = "" } = process.env;
const millrace = new Millrace({ url, project, token });
const { result } = await millrace.run<{ message: string }>("hello", { name: "Ada" });
console.log(result.message);
export {};
`;
/** Each of these is an error, which the compiler has to find: it knows the types. */
const WRONG = `import { Millrace } from "millrace/client";
// @ts-expect-error
export const nothing = new Millrace({ url: 1 });
// @ts-expect-error
export type Nothing = Millrace["nothing"];
`;

/** The packages of the bill that are to be installed, each with its version. */
function billed(): string[] {
  const bom = JSON.parse(readFileSync(path.join(folder, "first", BOM), "utf8")) as {
    components: { name: string; version: string; properties?: object[] }[];
  };
  return bom.components
    .filter(({ properties }) => !properties)
    .map(({ name, version }) => `${name}@${version}`)
    .toSorted();
}

/** The packages in a folder besides our own, each with its version. */
function installedIn(cwd: string): string[] {
  return globSync("node_modules/**/package.json", { cwd })
    .filter((file) => /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(file))
    .map(
      (file) => JSON.parse(readFileSync(path.join(cwd, file), "utf8")) as { name?: string; version?: string },
    )
    .filter(({ name, version }) => name !== undefined && version !== undefined && name !== "millrace")
    .map(({ name, version }) => `${name}@${version}`)
    .toSorted();
}

/** Whether npm reaches its registry; said aloud if it does not. */
function hasRegistry(): boolean {
  const found = spawnSync("npm", ["ping"]).status === 0;
  if (!found) process.stderr.write("\nskipped: npm does not reach its registry\n");
  return found;
}
