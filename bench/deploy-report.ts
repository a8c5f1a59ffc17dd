import { quantile } from "./deploy-targets.ts";
import type { DeployFigures, DeployId } from "./deploy.ts";
import { type Machine, machineLines } from "./machine.ts";
import { verdictLines } from "./report.ts";
import type { Verdict } from "./targets.ts";

const NAMES: Record<DeployId, string> = {
  bare: "python, its own HTTP server",
  fastapi: "FastAPI + uvicorn",
  fresh: "Millrace, new app, POST and PUT",
  "fresh-once": "Millrace, new app, one call",
  again: "Millrace, redeploy, POST and PUT",
  "again-once": "Millrace, redeploy, one call",
};
const NAME_WIDTH = 36;

/** The table of `bench deploy`, for people. */
export function deployText(machine: Machine, figures: DeployFigures, verdicts: readonly Verdict[]): string {
  const lines = [
    ...machineLines(machine),
    `${figures.rounds} round(s), until the first 200`,
    "",
    "".padEnd(NAME_WIDTH) + row("p50 ms", "p95 ms", "best ms"),
  ];
  for (const [id, name] of Object.entries(NAMES) as [DeployId, string][]) {
    const times = figures.times[id];
    lines.push(name.padEnd(NAME_WIDTH) + row(...[0.5, 0.95, 0].map((share) => text(quantile(times, share)))));
  }
  if (figures.note !== null) lines.push("", figures.note);
  if (figures.problem !== null) lines.push("", `failed: ${figures.problem}`);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

function row(...cells: string[]): string {
  return cells.map((cell) => cell.padStart(10)).join("");
}

function text(ms: number | null): string {
  return ms === null ? "—" : ms.toFixed(1);
}
