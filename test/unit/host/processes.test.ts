import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "vitest";
import { readStat } from "../../../src/host/processes.ts";
import { verifies } from "../../verifies.ts";

/** A folder such as /proc with one process, of these flags and pending signals. */
function procWith(flags: number, pending: number): string {
  const proc = mkdtempSync(path.join(tmpdir(), "millrace-proc-"));
  const after = Array.from({ length: 47 }, () => 0);
  // The kernel's manual counts from 1, with the pid and the name in front of these.
  after[9 - 4] = flags;
  after[31 - 4] = pending;
  mkdirSync(path.join(proc, "7"));
  writeFileSync(path.join(proc, "7", "stat"), `7 (any ) name) R ${after.join(" ")}\n`);
  return proc;
}

verifies("walls.limits.memory", "a process that was killed or exits is known to be ending", () => {
  const EXITING = 0x4;
  const RANDOMIZED = 0x400000;
  const [SIGKILL, SIGTERM] = [1 << 8, 1 << 14];
  const isEnding = (flags: number, pending: number): boolean =>
    readStat("7", procWith(flags, pending)).isEnding;
  expect(isEnding(RANDOMIZED, SIGTERM)).toBe(false);
  expect(isEnding(RANDOMIZED | EXITING, 0)).toBe(true);
  expect(isEnding(RANDOMIZED, SIGTERM | SIGKILL)).toBe(true);
});
