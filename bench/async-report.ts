import { shareOfFloor } from "./async-targets.ts";
import { type AcceptRound, type AsyncResult, type AsyncSettings, CONNECTIONS } from "./async.ts";
import type { Delay } from "./async-dispatch.ts";
import { type Machine, machineLines } from "./machine.ts";
import type { TopFunction } from "./profile-top.ts";
import { verdictLines } from "./report.ts";
import { medianBy, type Verdict } from "./targets.ts";

const NAME_WIDTH = 40;
const HEADS = ["runs/s", "p50 ms", "p99 ms", "service", "database", "others"];

/** The tables of `bench async`, for people. */
export function asyncText(
  machine: Machine,
  settings: AsyncSettings,
  result: AsyncResult,
  verdicts: readonly Verdict[],
  top: readonly TopFunction[],
): string {
  const { database, problem, floor, held, draining, dispatch } = result;
  const bare = medianBy(floor, ({ perSecond }) => perSecond);
  const dispatched = medianBy(dispatch, ({ sinceAccepted }) => sinceAccepted.p50Us);
  const lines = [
    ...machineLines(machine),
    `${database}; the median of ${settings.rounds} round(s) of ${settings.measureMs / 1000} s, ${CONNECTIONS} in flight`,
    "service, database: CPU µs per run; others: cores that the rest of the machine took meanwhile",
    "",
    " ".repeat(NAME_WIDTH) + row(HEADS),
    line("group commit alone", bare && [whole(bare.perSecond), ms(bare.p50Us), ms(bare.p99Us)]),
    line("202s, the replica held", acceptCells(held)),
    line("202s, the replica executing", acceptCells(draining)),
    line("runs finished, from a backlog", finishedCells(held)),
    line("runs finished, from submit to end", finishedCells(draining)),
    line("one at a time: request to function", dispatched && delayCells(dispatched.sinceRequest)),
    line("one at a time: 202 to function", dispatched && delayCells(dispatched.sinceAccepted)),
    "",
    `202s, the replica held / group commit alone: ${shares(shareOfFloor(result))}`,
  ];
  if (problem !== null) lines.push("", `failed: ${problem}`);
  if (top.length > 0) lines.push("", "the service's own time");
  for (const { share, name } of top) lines.push(`${(share * 100).toFixed(1).padStart(6)} %  ${name}`);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

function acceptCells(rounds: readonly AcceptRound[]): string[] | null {
  const round = medianBy(rounds, ({ callsPerSecond }) => callsPerSecond);
  if (round === null) return null;
  const { callsPerSecond, p50Us, p99Us, serviceCpuUs, databaseCpuUs, othersCores } = round;
  const cpu = [serviceCpuUs.toFixed(0), databaseCpuUs.toFixed(0), othersCores.toFixed(2)];
  return [whole(callsPerSecond), ms(p50Us), ms(p99Us), ...cpu];
}

function finishedCells(rounds: readonly AcceptRound[]): string[] | null {
  const round = medianBy(rounds, ({ finishedPerSecond }) => finishedPerSecond);
  return round && [whole(round.finishedPerSecond)];
}

function delayCells({ p50Us, p99Us }: Delay): string[] {
  return ["", ms(p50Us), ms(p99Us)];
}

function shares(values: readonly number[]): string {
  const median = medianBy(values, (value) => value);
  if (median === null) return "not measured";
  return `${median.toFixed(2)} (rounds ${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)})`;
}

function line(name: string, cells: readonly string[] | null): string {
  return name.padEnd(NAME_WIDTH) + (cells === null ? "  not measured" : row(cells));
}

function row(cells: readonly string[]): string {
  return cells.map((cell) => cell.padStart(10)).join("");
}

function ms(us: number): string {
  return (us / 1000).toFixed(2);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
