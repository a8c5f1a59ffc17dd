import { type Machine, machineLines } from "./machine.ts";
import type { TopFunction } from "./profile-top.ts";
import { verdictLines } from "./report.ts";
import { medianStreamRound } from "./stream-targets.ts";
import type { PartResult, StreamSettings, StreamSubjectResult } from "./stream.ts";
import type { Verdict } from "./targets.ts";

const NAME_WIDTH = 22;
const HEADS = ["messages/s", "p50 ms", "p99 ms", "gateway", "below", "reader", "others"];

/** Where the service's time went in one part. */
export type PartProfile = { readonly title: string; readonly top: readonly TopFunction[] };

/** The tables of `bench stream`, for people. */
export function streamText(
  machine: Machine,
  settings: StreamSettings,
  results: readonly PartResult[],
  verdicts: readonly Verdict[],
  profiles: readonly PartProfile[],
): string {
  const lines = [
    ...machineLines(machine),
    `the median of ${settings.rounds} round(s) of ${settings.measureMs / 1000} s`,
    ...partLines(results),
  ];
  const notes = new Set(results.flatMap(({ subjects }) => subjects.map(({ note }) => note)));
  for (const note of notes) if (note !== null) lines.push("", note);
  for (const { title, top } of profiles) {
    lines.push("", `Millrace's own time, ${title}`);
    for (const { share, name } of top) lines.push(`${(share * 100).toFixed(1).padStart(6)} %  ${name}`);
  }
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}

/** A table for each part. */
export function partLines(results: readonly PartResult[]): string[] {
  return [
    "gateway, below it, reader: CPU µs per message; others: cores that the rest of the machine took meanwhile",
    ...results.flatMap(({ part, subjects }) => [
      "",
      part.title.padEnd(NAME_WIDTH),
      " ".repeat(NAME_WIDTH) + row(HEADS),
      ...subjects.map((subject) => subjectLine(part, subject)),
    ]),
  ];
}

function subjectLine(part: PartResult["part"], subject: StreamSubjectResult): string {
  const round = medianStreamRound(part.id, subject);
  const name = subject.name.padEnd(NAME_WIDTH);
  if (round === null) return `${name}  ${subject.status}: ${subject.problem ?? "no rounds"}`;
  const hasDelays = part.perSecond !== null;
  const perMessage = (cpuMs: number) => ((cpuMs * 1000) / round.messages).toFixed(1);
  return (
    name +
    row([
      Math.round(round.messagesPerSecond).toLocaleString("en-US"),
      hasDelays ? (round.p50Us / 1000).toFixed(1) : "",
      hasDelays ? (round.p99Us / 1000).toFixed(1) : "",
      perMessage(round.gatewayCpuMs),
      perMessage(round.belowCpuMs),
      perMessage(round.readerCpuMs),
      round.othersCores.toFixed(2),
    ])
  );
}

function row(cells: readonly string[]): string {
  return cells.map((cell) => cell.padStart(11)).join("");
}
