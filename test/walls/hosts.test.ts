import { chmodSync, chownSync, mkdirSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect, type TestContext } from "vitest";
import type { WallLevel } from "../../src/host/walls/walls.ts";
import type { Verdict } from "../../src/cli/operator/escape/verdict.ts";
import { BUILT_PACKAGE, MILLRACE, run, scratchDirectory } from "../support/command-line.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { offered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

type Host = {
  readonly name: string;
  /** What it is as if the host had not: see `lacking.py`. */
  readonly lacks: string;
  /** The strongest level that such a host can give to an ordinary user, and to root. */
  readonly most: WallLevel;
  readonly mostOfRoot: WallLevel;
};

const HOSTS: readonly Host[] = [
  { name: "as it is", lacks: "nothing", most: "userns", mostOfRoot: "uid" },
  // The kernel lets nobody without capabilities be root in a namespace of their own.
  { name: "without capabilities", lacks: "capabilities", most: "userns", mostOfRoot: "landlock" },
  { name: "without user namespaces", lacks: "namespaces", most: "landlock", mostOfRoot: "landlock" },
  { name: "without Landlock", lacks: "landlock", most: "process", mostOfRoot: "process" },
  {
    name: "without either, and without capabilities",
    lacks: "namespaces,landlock,capabilities",
    most: "process",
    mostOfRoot: "process",
  },
];

/** Nobody in particular: a user that owns nothing here. */
const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const USERS = [
  { name: "whoever runs this", uid: null },
  { name: "an ordinary user", uid: NOBODY },
] as const;

const LACKING = path.join(REPOSITORY, "test/support/walls/lacking.py");

function skip(context: TestContext, why: string): void {
  process.stderr.write(`\nNOT TESTED: ${why}\n`);
  context.skip(why);
}

/** A folder of the user's own for temporary files, and everything in reach that the command needs. */
function placeFor(uid: number | null): { folder: string; env: Record<string, string> } {
  const folder = scratchDirectory();
  const temporary = path.join(folder, "tmp");
  mkdirSync(temporary, { mode: 0o700 });
  if (uid !== null) {
    chmodSync(BUILT_PACKAGE, 0o755);
    chmodSync(folder, 0o755);
    chownSync(temporary, uid, uid);
  }
  const env = {
    TMPDIR: temporary,
    XDG_RUNTIME_DIR: temporary,
    HOME: temporary,
    MILLRACE_DATA_DIR: path.join(temporary, "data"),
    // Python of a version chooser may be in somebody's home.
    ...(uid !== null && { PATH: "/usr/local/bin:/usr/bin:/bin" }),
  };
  return { folder: temporary, env };
}

for (const user of USERS) {
  for (const { name, lacks, most: usual, mostOfRoot } of HOSTS) {
    const most = user.uid === null && IS_ROOT ? mostOfRoot : usual;
    verifies(
      "walls.hosts",
      `as ${user.name}, on a host ${name}, the level that is claimed is the real one, and nothing gets out`,
      async (context) => {
        if (user.uid !== null && !IS_ROOT) skip(context, "only root can become an ordinary user");
        const reason = (await offered())[most];
        if (reason !== null) skip(context, `this host gives no ${most}: ${reason}`);
        const { folder, env } = placeFor(user.uid);
        const args = [LACKING, lacks, String(user.uid ?? "-"), MILLRACE, "doctor", "--escape", "--json"];
        const { code, stdout, stderr } = await run("python3", args, {
          env: { ...env, MILLRACE_ISOLATION: most },
        });
        const verdict = JSON.parse(stdout || JSON.stringify({ stderr })) as Verdict;
        const { claimed_level: claimed, real_level: real, tried, stopped, failures, seconds } = verdict;
        process.stderr.write(
          `\n${user.name}, ${name}: ${claimed}, ${stopped} of ${tried} stopped in ${seconds} s\n`,
        );
        // Where it came to no verdict, this says why.
        expect(failures ?? `${stderr}${stdout}`.slice(-2_000)).toEqual([]);
        expect([claimed, real, code]).toEqual([most, most, 0]);
        expect(readdirSync(folder)).toEqual([]);
      },
    );
  }
}
