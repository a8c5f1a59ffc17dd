import { type Machine, machineLines } from "./machine.ts";
import { verdictLines } from "./report.ts";
import { medianBy, medianRound, type Verdict } from "./targets.ts";
import type { Sides, StartFigures, WallsFigures } from "./walls.ts";

const NAME_WIDTH = 40;

/** The table of `bench walls`, for people. */
export function wallsText(machine: Machine, figures: WallsFigures, verdicts: readonly Verdict[]): string {
  const { rounds, level, sync, keptTemplate, firstStart, problem } = figures;
  const lines = [
    ...machineLines(machine),
    `medians of ${rounds} round(s); walls: ${level ?? "none"}; CPU: of the service and all below it`,
    "",
    "".padEnd(NAME_WIDTH) + row("without", "with"),
  ];
  const calls = (figure: "callsPerSecond" | "cpuUs"): string[] =>
    (["millrace", "walls"] as const).map((id) => {
      const result = sync.find((each) => each.id === id);
      return text((result && medianRound(result, 32)?.[figure]) ?? null);
    });
  lines.push("calls/s at 32 connections".padEnd(NAME_WIDTH) + row(...calls("callsPerSecond")));
  lines.push("CPU µs of a call".padEnd(NAME_WIDTH) + row(...calls("cpuUs")));
  for (const [name, sides] of [
    ["first start", firstStart],
    ["start from a kept template", keptTemplate],
  ] as const) {
    lines.push(`${name}, ms`.padEnd(NAME_WIDTH) + row(...starts(sides, "ms")));
    lines.push(`${name}, CPU ms`.padEnd(NAME_WIDTH) + row(...starts(sides, "cpuMs")));
  }
  if (problem !== null) lines.push("", `failed: ${problem}`);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

function starts({ plain, walls }: Sides<StartFigures>, figure: keyof StartFigures): string[] {
  return [plain, walls].map((rounds) =>
    text(
      medianBy(
        rounds.map((round) => round[figure]),
        (ms) => ms,
      ),
    ),
  );
}

function row(...cells: string[]): string {
  return cells.map((cell) => cell.padStart(12)).join("");
}

function text(value: number | null): string {
  return value === null ? "—" : value.toFixed(1);
}
