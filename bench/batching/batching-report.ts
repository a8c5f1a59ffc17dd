import { type Machine, machineLines } from "../machine.ts";
import { verdictLines } from "../report.ts";
import { medianBy, type Verdict } from "../targets.ts";
import type { BatchingFigures, BatchingSettings, Measured, Paced } from "./batching.ts";
import { PEERS } from "./peers.ts";
import type { BatchingRound } from "./subjects.ts";

const NAME_WIDTH = 36;

/** The tables of `bench batching`, for people. */
export function batchingText(
  machine: Machine,
  { rounds, measureMs }: Pick<BatchingSettings, "rounds" | "measureMs">,
  figures: BatchingFigures,
  verdicts: readonly Verdict[],
): string {
  const { subjects, lone, paced, overload, problem } = figures;
  const lines = [
    ...machineLines(machine),
    `5 ms and 0.2 ms per item; ${rounds} round(s) of ${measureMs / 1000} s; CPU: of all the server's processes, per call`,
    "",
    row("64 connections", "calls/s", "p50 ms", "p95 ms", "CPU µs"),
    ...subjects.map(subjectLine),
  ];
  if (lone.untuned.length > 0) {
    lines.push("", row("a lone caller", "calls/s", "p50 ms", "p95 ms", "CPU µs"));
    lines.push(roundLine("not batched", middle(lone.single)), roundLine("batched", middle(lone.untuned)));
  }
  if (paced.length > 0) {
    lines.push("", row("at a rate", "calls/s", "share", "p95 ms", "Millrace's"));
    lines.push(...paced.map(pacedLine));
  }
  const beyond = middle(overload.beyond);
  if (beyond !== null) {
    const statuses = Object.entries(beyond.statuses).map(([status, count]) => `${count} × ${status}`);
    lines.push("", `more calls than are answered: ${whole(beyond.callsPerSecond)}/s, ${statuses.join(", ")}`);
    const errors = Object.entries(beyond.errors).map(([error, count]) => `${count} × ${error}`);
    if (errors.length > 0) lines.push(`  ${errors.join(", ")}`);
  }
  const notes = subjects.flatMap(({ note }) => note ?? []);
  if (notes.length > 0) lines.push("", ...notes);
  if (problem !== null) lines.push("", `failed: ${problem}`);
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

function subjectLine({ name, status, problem, rounds }: Measured): string {
  if (status !== "measured") return `${name.padEnd(NAME_WIDTH)}  ${status}: ${problem ?? "no rounds"}`;
  return roundLine(name, middle(rounds));
}

function roundLine(name: string, round: BatchingRound | null): string {
  if (round === null) return `${name.padEnd(NAME_WIDTH)}  no rounds`;
  const { callsPerSecond, p50Us, p95Us, cpuUs } = round;
  return row(name, whole(callsPerSecond), ms(p50Us), ms(p95Us), whole(cpuUs));
}

function pacedLine({ peer, share, perSecond, ours, theirs }: Paced): string {
  const name = PEERS.find(({ id }) => id === peer)?.name ?? peer;
  const p95 = (rounds: readonly BatchingRound[]): string => {
    const round = medianBy(rounds, ({ p95Us }) => p95Us);
    return round === null ? "—" : ms(round.p95Us);
  };
  return row(name, whole(perSecond), `${share * 100} %`, p95(theirs), p95(ours));
}

/** The round that stands for all. */
function middle(rounds: readonly BatchingRound[]): BatchingRound | null {
  return medianBy(rounds, ({ callsPerSecond }) => callsPerSecond);
}

function row(name: string, ...cells: string[]): string {
  return name.padEnd(NAME_WIDTH) + cells.map((cell) => cell.padStart(12)).join("");
}

function ms(us: number): string {
  return (us / 1000).toFixed(1);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
