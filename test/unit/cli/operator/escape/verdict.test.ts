import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { attack, type Wall } from "../../../../../src/cli/operator/escape/attack.ts";
import { isSound, judge, verdictText } from "../../../../../src/cli/operator/escape/verdict.ts";
import { readEscapeReport, writeEscapeReport } from "../../../../../src/host/walls/escape-report.ts";
import { verifies } from "../../../../verifies.ts";

const tried = (wall: Wall, isStopped: boolean) => ({
  kind: "files",
  attack: attack(wall, `${wall} ${isStopped}`, "", { isProven: !isStopped }),
  isStopped,
  result: isStopped ? "EACCES" : "escaped",
});

const ALL_STOPPED = (["service", "process", "landlock", "userns"] as const).map((wall) => tried(wall, true));

verifies(
  "cli.escape",
  "the real level is the highest of which, and of all below it, everything holds",
  () => {
    const real = (...escaped: Wall[]) =>
      judge("none", new Set(), [...ALL_STOPPED, ...escaped.map((wall) => tried(wall, false))], 1).real_level;
    expect([real("userns"), real("landlock"), real("process"), real("process", "userns")]).toEqual([
      "landlock",
      "process",
      "none",
      "none",
    ]);
    expect(real()).not.toBe("none");
  },
);

verifies(
  "cli.escape",
  "a claim is sound only if it is real, and the service's own promises hold always",
  () => {
    const claim = (level: "none" | "landlock" | "userns", ...escaped: Wall[]) =>
      judge(level, new Set(), [...ALL_STOPPED, ...escaped.map((wall) => tried(wall, false))], 1);
    expect(isSound(claim("landlock", "userns"))).toBe(true);
    expect(isSound(claim("userns", "userns"))).toBe(false);
    expect(isSound(claim("none", "process"))).toBe(true);
    const broken = claim("none", "process", "service");
    expect([isSound(broken), broken.failures]).toEqual([false, ["service false"]]);
    // Weaker than what is there: the claim is wrong as well.
    expect(isSound(claim("none", "userns"))).toBe(false);
  },
);

verifies("cli.escape", "what an app said about an attack steers no terminal", () => {
  const verdict = judge(
    "landlock",
    new Set(),
    [{ ...tried("landlock", false), result: "broken: \u{1b}[2J\nx" }],
    1,
  );
  const text = verdictText(verdict);
  expect(text).toContain("NOT STOPPED");
  expect(text).not.toContain("\u{1b}[2J");
});

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), "millrace-report-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

const REPORT = {
  at: "2026-11-17T02:00:00.000Z",
  version: "1.0.0",
  claimed: "userns",
  real: "userns",
  tried: 190,
  stopped: 190,
  failures: [],
} as const;

verifies("cli.escape", "a report is kept for its owner alone, and read as it was written", () => {
  const dataDir = folder();
  expect(readEscapeReport(dataDir)).toBeNull();
  writeEscapeReport(dataDir, { ...REPORT, failures: [] });
  expect(readEscapeReport(dataDir)).toEqual(REPORT);
  expect(statSync(path.join(dataDir, "escape-report.json")).mode & 0o777).toBe(0o600);
});

test("what is no report is not shown: wrong, endless, or a link to something else", () => {
  const dataDir = folder();
  const file = path.join(dataDir, "escape-report.json");
  const wrong = ["", "{", "[]", JSON.stringify({ ...REPORT, claimed: "all" }), `"${"x".repeat(70_000)}"`];
  for (const text of [...wrong, JSON.stringify({ ...REPORT, failures: Array(51).fill("x") })]) {
    writeFileSync(file, text);
    expect([text.slice(0, 20), readEscapeReport(dataDir)]).toEqual([text.slice(0, 20), null]);
  }
  rmSync(file);
  const elsewhere = path.join(dataDir, "elsewhere");
  writeFileSync(elsewhere, JSON.stringify(REPORT));
  symlinkSync(elsewhere, file);
  expect(readEscapeReport(dataDir)).toBeNull();
  expect(readFileSync(elsewhere, "utf8")).toContain("userns");
});
