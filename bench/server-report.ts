import type { Machine } from "./machine.ts";
import { syncText, verdictLines } from "./report.ts";
import { SERVER_SIDES, type ServerSide, SIDE_NAMES } from "./server-subjects.ts";
import type { TrafficFigures } from "./server-traffic.ts";
import type { SubjectResult, SyncSettings } from "./sync.ts";
import { medianBy, type Verdict } from "./targets.ts";

/** All that `bench server` has measured. */
export type ServerReport = {
  readonly machine: Machine;
  readonly settings: SyncSettings;
  readonly subjects: readonly SubjectResult[];
  readonly traffic: TrafficFigures;
  readonly verdicts: readonly Verdict[];
};

const NAME_WIDTH = 20;
const WIDTH = 13;

/** The tables of `bench server`, for people. */
export function serverText({ machine, settings, subjects, traffic, verdicts }: ServerReport): string {
  const { rounds, problem } = traffic;
  const lines = [
    syncText(machine, settings, subjects, []),
    `medians of ${rounds} round(s), each with fresh servers; CPU: of the process that callers talk to`,
    "",
    head("100 MB up:", "MB/s", "CPU ms", "more MB", "down: MB/s", "CPU ms", "more MB"),
    ...SERVER_SIDES.map((side) => bodyLine(traffic, side)),
    "",
    head("32 WebSockets:", "frames/s", "CPU µs", "5,000 idle:", "KB resident", "KB in use"),
    ...SERVER_SIDES.map((side) => socketLine(traffic, side)),
    "",
    head("1,000 streams:", "messages/s", "p50 ms", "p99 ms", "CPU µs"),
    ...SERVER_SIDES.map((side) => streamLine(traffic, side)),
  ];
  if (problem !== null) lines.push("", `failed: ${problem}`);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

function bodyLine({ transfers }: TrafficFigures, side: ServerSide): string {
  const cells = (["upload", "download"] as const).flatMap((direction) => {
    const all = transfers[direction][side];
    return [
      median(all, ({ bytesPerSecond }) => bytesPerSecond / 1e6),
      median(all, ({ cpuMs }) => cpuMs),
      median(all, ({ growthBytes }) => growthBytes / 1e6, 1),
    ];
  });
  return line(side, cells);
}

function socketLine({ echoes, idle }: TrafficFigures, side: ServerSide): string {
  return line(side, [
    median(echoes[side], ({ framesPerSecond }) => framesPerSecond),
    median(echoes[side], ({ cpuUs }) => cpuUs, 1),
    "",
    median(idle[side], ({ residentBytes }) => residentBytes / 1000, 1),
    median(idle[side], ({ usedBytes }) => usedBytes / 1000, 1),
  ]);
}

function streamLine({ streams }: TrafficFigures, side: ServerSide): string {
  const result = streams?.subjects.find(({ id }) => id === side);
  const all = result?.status === "measured" ? result.rounds : [];
  if (result && all.length === 0) return line(side, [`${result.status}: ${result.problem ?? "no rounds"}`]);
  return line(side, [
    median(all, ({ messagesPerSecond }) => messagesPerSecond),
    median(all, ({ p50Us }) => p50Us / 1000, 1),
    median(all, ({ p99Us }) => p99Us / 1000, 1),
    median(all, ({ gatewayCpuMs, messages }) => (gatewayCpuMs * 1000) / messages, 1),
  ]);
}

function median<T>(rounds: readonly T[], figure: (round: T) => number, digits = 0): string {
  const value = medianBy(rounds.map(figure), (each) => each);
  const format = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value === null ? "—" : value.toLocaleString("en-US", format);
}

function head(name: string, ...cells: string[]): string {
  return name.padEnd(NAME_WIDTH) + row(cells);
}

function line(side: ServerSide, cells: readonly string[]): string {
  return SIDE_NAMES[side].padEnd(NAME_WIDTH) + row(cells);
}

function row(cells: readonly string[]): string {
  return cells.map((cell) => cell.padStart(WIDTH)).join("");
}
