import { join } from "node:path";
import { existsSync } from "node:fs";
import { type Machine, machineLines } from "../machine.ts";
import { topFunctions } from "../profile-top.ts";
import { verdictLines } from "../report.ts";
import { medianBy, type Verdict } from "../targets.ts";
import type { BacklogFigures } from "./backlog.ts";
import type { LinesFigures } from "./lines.ts";
import type { QueueFigures, QueueSettings } from "./queue.ts";
import { middle, p95 } from "./queue-targets.ts";
import { cpuOf, type QueueSubject } from "./rounds.ts";

const NAME_WIDTH = 44;
const HEADS = ["runs/s", "CPU µs", "service", "database", "submitter", "writes", "log bytes", "others"];
const TOP_FUNCTIONS = 12;
const MB = 1024 * 1024;

/** The tables of `bench queue`, for people. */
export function queueText(
  machine: Machine,
  { rounds, measureMs, profileDir }: QueueSettings,
  figures: QueueFigures,
  verdicts: readonly Verdict[],
): string {
  const { before, wishes, peers, backlogs, lines, problem } = figures;
  const text = [
    ...machineLines(machine),
    `the median of ${rounds} round(s) of ${measureMs / 1000} s, from the first submit to the last end`,
    "CPU µs, transactions that write and bytes of Postgres's log: per run; others: cores that the rest of the machine took",
  ];
  for (const { database, subjects } of [...before, ...wishes]) text.push(...table(database, subjects));
  if (peers !== null) {
    text.push(...table(`${peers.database}: one call at a time`, peers.single));
    text.push(...table(`${peers.database}: in batches`, peers.batched));
    const notes = new Set([...peers.single, ...peers.batched].map(({ note }) => note));
    text.push("", ...[...notes].filter((note) => note !== null));
  }
  for (const backlog of backlogs) text.push(...backlogTable(backlog));
  if (lines.length > 0) text.push(...linesTable(lines));
  if (peers !== null && profileDir !== undefined) text.push(...profiles(profileDir, peers.single));
  if (problem !== null) text.push("", `failed: ${problem}`);
  if (verdicts.length > 0) text.push("", ...verdictLines(verdicts));
  return text.join("\n");
}

function table(title: string, subjects: readonly QueueSubject[]): string[] {
  return ["", row(title, HEADS), ...subjects.map(subjectLine)];
}

function subjectLine({ name, status, problem, rounds }: QueueSubject): string {
  const round = medianBy(rounds, ({ perSecond }) => perSecond);
  if (status !== "measured" || round === null)
    return `${name.padEnd(NAME_WIDTH)}  ${status}: ${problem ?? "no rounds"}`;
  const { perSecond, serviceCpuUs, databaseCpuUs, loadCpuUs, writes, logBytes, othersCores } = round;
  return row(name, [
    whole(perSecond),
    whole(cpuOf(round)),
    whole(serviceCpuUs),
    whole(databaseCpuUs),
    whole(loadCpuUs),
    writes === null ? "" : writes.toFixed(3),
    logBytes === null ? "" : whole(logBytes),
    othersCores.toFixed(2),
  ]);
}

function backlogTable(figures: BacklogFigures): string[] {
  const { database, problem, waiting, acceptedPerSecond, alone, short, behind } = figures;
  if (problem !== null) return ["", `${database}, many runs of one caller: failed: ${problem}`];
  const times = (name: string, values: readonly number[]) =>
    row(name, [ms(middle(values)), ms(p95(values)), ms(values.length === 0 ? null : Math.max(...values))]);
  const many = whole(waiting);
  return [
    "",
    row(`${database}: ${many} runs of one caller`, ["p50 ms", "p95 ms", "most ms"]),
    times("another caller alone: to the start", alone.startMs),
    times("another caller alone: to the end", alone.endMs),
    times("behind a short line: to the start", short.startMs),
    times(`behind ${many}: to the start`, behind.startMs),
    times(`behind ${many}: to the end`, behind.endMs),
    times("a claim, in the store", figures.claimMs),
    times("a position, in the store", figures.storedPositionMs),
    times("a record with its position, over HTTP", figures.positionMs),
    times("a page of the list, over HTTP", figures.pageMs),
    `they were accepted at ${whole(acceptedPerSecond)}/s while the app was working`,
  ];
}

function linesTable(all: readonly LinesFigures[]): string[] {
  const heads = ["accepted/s", "ended/s", "MB, tenth", "MB, all", "MB, working"];
  const cells = ({
    acceptedPerSecond,
    endedPerSecond,
    tenthBytes,
    acceptBytes,
    executeBytes,
  }: LinesFigures) => [
    whole(acceptedPerSecond),
    whole(endedPerSecond),
    ...[tenthBytes, acceptBytes, executeBytes].map((bytes) => (bytes / MB).toFixed(0)),
  ];
  const line = (figures: LinesFigures): string => {
    const { database, lines, problem } = figures;
    const name = `${database}: ${whole(lines)} lines`;
    return problem === null
      ? row(name, cells(figures))
      : `${name.padEnd(NAME_WIDTH)}  not measured: ${problem}`;
  };
  return ["", row("a batch of lines", heads), ...all.map(line)];
}

/** Where the busiest thread of each spent its own time. */
function profiles(folder: string, subjects: readonly QueueSubject[]): string[] {
  return subjects.flatMap(({ id, name }) => {
    const own = join(folder, id);
    if (!existsSync(own)) return [];
    const top = topFunctions(own, TOP_FUNCTIONS);
    const lines = top.map(({ share, name: what }) => `${(share * 100).toFixed(1).padStart(6)} %  ${what}`);
    return ["", `${name}: own time of its worker process`, ...lines];
  });
}

function row(name: string, cells: readonly string[]): string {
  return name.padEnd(NAME_WIDTH) + cells.map((cell) => cell.padStart(11)).join("");
}

function ms(value: number | null): string {
  return value === null ? "—" : value.toFixed(1);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
