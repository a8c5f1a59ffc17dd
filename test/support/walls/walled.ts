import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished, type TestContext } from "vitest";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { probeNetwork, probeLevels } from "../../../src/host/walls/probes.ts";
import { type Offer, WALL_LEVELS, type WallLevel } from "../../../src/host/walls/walls.ts";
import { parentOf } from "../process-tree.ts";

/** One that projects may have. */
export const FIRST_USER = 1_900_000_000;

let asked: Promise<Offer> | undefined;

/** What this host gives to whoever runs the tests. */
export async function offered(): Promise<Offer> {
  asked ??= findInterpreter("python3").then(({ path: python }) =>
    probeLevels({ python, dataDir: "/nonexistent", reads: [], user: FIRST_USER }),
  );
  return await asked;
}

/** Skips the test, and says why, where the host does not give a level. */
export async function requireOffered(level: WallLevel, context: TestContext): Promise<void> {
  const reason = (await offered())[level];
  if (reason === null) return;
  process.stderr.write(`\nNOT TESTED: this host gives no level ${level}: ${reason}\n`);
  context.skip(`this host gives no level ${level}: ${reason}`);
}

/**
 * Settings of a service whose host gives that level and none above it: a service uses the highest there is. Its Python
 * is a script that answers for the host when it is asked for levels, and otherwise becomes the real one, `command`.
 * Connections are judged only with `isJudged`, or on the highest.
 */
export async function onlyUpTo(
  level: WallLevel,
  command = "python3",
  isJudged = false,
): Promise<{ isolation: WallLevel; python: string }> {
  const found = await findInterpreter(command);
  if (level === WALL_LEVELS.at(-1)) return { isolation: level, python: found.path };
  // It may be a virtual environment, which has no library of its own.
  const real = realpathSync(found.path);
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-weaker-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const python = path.join(folder, "bin", "python3");
  const isGiven = (each: WallLevel): boolean => WALL_LEVELS.indexOf(each) <= WALL_LEVELS.indexOf(level);
  const offer = Object.fromEntries(
    WALL_LEVELS.map((each) => [each, isGiven(each) ? null : "not in this test"]),
  );
  const lines = [
    "#!/bin/sh",
    'case "$*" in',
    `*print\\(sys.executable\\)*) echo ${python}; echo ${found.version}; echo ${real}; exit;;`,
    `*millrace_walls.probe${isJudged ? "\\ import" : ""}*) cat > /dev/null; echo '${JSON.stringify(offer)}'; exit;;`,
    "esac",
    "unset PWD",
    `exec ${real} "$@"`,
  ];
  mkdirSync(path.dirname(python));
  // For services of other users.
  chmodSync(folder, 0o755);
  writeFileSync(python, `${lines.join("\n")}\n`);
  chmodSync(python, 0o755);
  // What is around an interpreter is shown to apps, wherever links lead.
  const prefix = path.dirname(path.dirname(real));
  for (const [name, target] of Object.entries({ lib: "lib", libexec: "bin" }))
    symlinkSync(path.join(prefix, target), path.join(folder, name));
  return { isolation: level, python };
}

/** A Python whose host gives what it is told, and no more. */
export function pythonOffering(offer: Offer): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-offer-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const program = path.join(folder, "python");
  const lines = [
    "#!/bin/sh",
    `if [ "$1" = -c ]; then echo ${program}; echo 3.11.7; exit; fi`,
    `cat > /dev/null; echo '${JSON.stringify(offer)}'`,
  ];
  writeFileSync(program, `${lines.join("\n")}\n`);
  chmodSync(program, 0o755);
  return program;
}

/** The process that the service itself has started for a replica: its outer keeper. */
export function outerKeeperOf(pid: number, service: number): number {
  const parent = parentOf(pid);
  if (parent <= 1) throw new Error(`${pid} is not below ${service}`);
  return parent === service ? pid : outerKeeperOf(parent, service);
}

/** Skips the test, and says why, where connections behind a level cannot be judged. */
export async function requireJudged(level: WallLevel, context: TestContext): Promise<void> {
  await requireOffered(level, context);
  const { path: python } = await findInterpreter("python3");
  const reason = await probeNetwork(python, level, "/nonexistent", FIRST_USER);
  if (reason === null) return;
  process.stderr.write(`\nNOT TESTED: on ${level} connections cannot be judged: ${reason}\n`);
  context.skip(`on ${level} connections cannot be judged: ${reason}`);
}
