import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import { apiOf } from "../../../src/cli/client/api.ts";
import { ATTACKS, type Tried, tryAttacks } from "../../../src/cli/operator/escape/try-attacks.ts";
import { Stage } from "../../../src/cli/operator/escape/stage.ts";
import { isSound, judge } from "../../../src/cli/operator/escape/verdict.ts";
import { PYTHON_DIR } from "../../../src/config/package-files.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { WALL_LEVELS } from "../../../src/host/walls/walls.ts";
import { testService } from "../../support/service.ts";
import { onlyUpTo, requireOffered } from "../../support/walls/walled.ts";
import { ATTACKED_LEVELS } from "../../support/walls/tried-levels.ts";
import { verifies } from "../../verifies.ts";

const LEVELS = ["none", ...WALL_LEVELS] as const;

for (const level of ATTACKED_LEVELS) {
  verifies(
    "walls.attacks",
    `on ${level} a hostile app is stopped wherever that level says, and nowhere else for certain`,
    async (context) => {
      if (level !== "none") await requireOffered(level, context);
      const service = await testService({}, level === "none" ? { isolation: level } : await onlyUpTo(level));
      const { apiUrl, baseUrl, owner } = service.service;
      const { signal } = new AbortController();
      const { path: python } = await findInterpreter("python3");
      const { dataDir } = service.settings;
      const api = apiOf({ apiUrl, baseUrl, ...owner }, signal);
      const stage = new Stage({
        api,
        dataDir,
        masterKey: path.join(dataDir, "master.key"),
        pid: process.pid,
        python,
        isScratch: false,
        judgesNetwork: false,
      });
      onTestFinished(async () => {
        await stage.clear();
        expect(readdirSync(path.join(dataDir, "storage"))).toEqual([owner.projectId]);
      });
      await stage.prepare(signal);
      const all: Tried[] = [];
      for await (const tried of tryAttacks(stage)) all.push(tried);
      const verdict = judge(level, new Set(), all, 0);
      expect(verdict.failures).toEqual([]);
      expect([verdict.claimed_level, verdict.real_level, isSound(verdict)]).toEqual([level, level, true]);
      // What is said to be an attack on every host has to be one.
      const next = WALL_LEVELS[LEVELS.indexOf(level)];
      const tame = all.filter(
        ({ attack, isStopped }) => attack.isProven && attack.stoppedBy === next && isStopped,
      );
      expect(tame.map(({ attack, result }) => `${attack.name}: ${result}`)).toEqual([]);
    },
  );
}

/** What it leaves running ends with the process that tells of it. */
const LEAVES = `
import os, sys
sys.path.insert(0, sys.argv[1])
from millrace_escape.hostile import attack_each
gate, other = os.pipe()
code = "if os.fork() == 0:\\n    os.close(other)\\n    os.read(gate, 1)\\n    os._exit(0)"
print(*attack_each([code], {"gate": gate, "other": other}))
`;

verifies("walls.attacks", "an attack is told of while what it has left running goes on", async () => {
  const { stdout } = await promisify(execFile)("python3", ["-c", LEAVES, PYTHON_DIR]);
  expect(stdout).toBe("escaped\n");
});

verifies("walls.attacks", "the table holds at least 120 attacks, each under a name of its own", () => {
  const names = Object.values(ATTACKS)
    .flat()
    .map(({ name }) => name);
  expect(names.length).toBeGreaterThanOrEqual(120);
  expect(new Set(names).size).toBe(names.length);
  for (const level of WALL_LEVELS)
    expect(
      Object.values(ATTACKS)
        .flat()
        .some(({ isProven, stoppedBy }) => isProven && stoppedBy === level),
    ).toBe(true);
});
