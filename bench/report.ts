import type { ColdFigures } from "./cold.ts";
import { type Machine, machineLines } from "./machine.ts";
import { CONNECTION_COUNTS, type SubjectResult, type SyncSettings } from "./sync.ts";
import { medianRound, type Verdict } from "./targets.ts";

const NAME_WIDTH = 20;

/** The tables of `bench sync`, for people. */
export function syncText(
  machine: Machine,
  settings: SyncSettings,
  results: readonly SubjectResult[],
  verdicts: readonly Verdict[],
): string {
  const lines = [
    ...machineLines(machine),
    `the median of ${settings.rounds} round(s) of ${settings.measureMs / 1000} s; CPU: of all the server's processes, per call`,
  ];
  lines.push("", " ".repeat(NAME_WIDTH) + CONNECTION_COUNTS.map((count) => groupHead(count)).join(""));
  lines.push(
    " ".repeat(NAME_WIDTH) +
      CONNECTION_COUNTS.map(() => row("calls/s", "p50 µs", "p99 µs", "CPU µs")).join(""),
  );
  for (const result of results) {
    const cells = CONNECTION_COUNTS.map((count) => {
      const round = medianRound(result, count);
      if (round === null) return "";
      const { callsPerSecond, p50Us, p99Us, cpuUs } = round;
      return row(whole(callsPerSecond), whole(p50Us), whole(p99Us), whole(cpuUs));
    });
    const text = cells.includes("") ? `  ${result.status}: ${result.problem ?? "no rounds"}` : cells.join("");
    lines.push(result.name.padEnd(NAME_WIDTH) + text);
  }
  const notes = new Set(results.map(({ note }) => note));
  for (const note of notes) if (note !== null) lines.push("", note);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

/** The table of `bench cold`, for people. */
export function coldText(machine: Machine, figures: ColdFigures, verdicts: readonly Verdict[]): string {
  const lines = [...machineLines(machine), `medians of ${figures.repeats} (interpreter: twice as many)`, ""];
  const rows: [string, number | null][] = [
    ["the interpreter alone, import main", figures.interpreterMs],
    ["first ever call of a fresh service", figures.firstEverMs],
    ["from zero replicas, template kept", figures.keptTemplateMs],
    ["from 1 to 8 replicas serving", figures.scaleOutMs],
  ];
  for (const [name, ms] of rows) {
    lines.push(name.padEnd(40) + (ms === null ? "—" : `${ms.toFixed(1)} ms`).padStart(12));
  }
  if (figures.problem !== null) lines.push("", `failed: ${figures.problem}`);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

/** A line for each promise: kept, missed, or not measured. */
export function verdictLines(verdicts: readonly Verdict[]): string[] {
  const width = Math.max(...verdicts.map(({ what }) => what.length));
  return verdicts.map(({ what, bound, target, value, spread, unit, isMet }) => {
    const mark = isMet === null ? "–" : isMet ? "✓" : "✗";
    const text = (n: number) => figureText(n, unit);
    const found = value === null ? "not measured" : text(value);
    const range = spread === null ? "" : `, rounds ${text(spread[0])} to ${text(spread[1])}`;
    const limit = `${bound === "at least" ? "≥" : "≤"} ${target.toLocaleString("en-US")}${UNIT_TEXT[unit]}`;
    return `${mark} ${what.padEnd(width)}  ${found.padStart(12)}  (${limit}${range})`;
  });
}

const UNIT_TEXT = { ratio: "", ms: " ms", "per second": "/s", KB: " KB", MB: " MB" } as const;

function figureText(value: number, unit: Verdict["unit"]): string {
  if (unit === "per second") return `${whole(value)}/s`;
  return `${value.toFixed(unit === "ratio" ? 2 : 1)}${UNIT_TEXT[unit]}`;
}

function groupHead(connections: number): string {
  return `  ${`${connections} connection${connections === 1 ? "" : "s"}`.padStart(40)}`;
}

function row(...cells: string[]): string {
  return `  ${cells.map((cell) => cell.padStart(10)).join("")}`;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
