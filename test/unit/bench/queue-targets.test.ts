import { expect } from "vitest";
import type { BacklogFigures } from "../../../bench/queue/backlog.ts";
import type { LinesFigures } from "../../../bench/queue/lines.ts";
import { queueText } from "../../../bench/queue/queue-report.ts";
import { judgeQueue, p95 } from "../../../bench/queue/queue-targets.ts";
import { isQueueSound, type QueueFigures } from "../../../bench/queue/queue.ts";
import type { QueueSubject } from "../../../bench/queue/rounds.ts";
import { verifies } from "../../verifies.ts";

const NOTHING: QueueFigures = { before: [], wishes: [], peers: null, backlogs: [], lines: [], problem: null };
const MACHINE = {
  cpu: "a CPU",
  cores: 2,
  memoryGb: 1,
  system: "Linux",
  node: "24",
  python: "3",
  loadBefore: 0,
};

function subject(id: string, ...rates: readonly number[]): QueueSubject {
  const round = {
    runs: 1,
    serviceCpuUs: 1,
    databaseCpuUs: 1,
    loadCpuUs: 1,
    writes: 0.1,
    logBytes: 900,
    othersCores: 0,
  };
  const rounds = rates.map((perSecond) => ({ ...round, perSecond }));
  return { id, name: id, note: null, status: "measured", problem: null, rounds };
}

function backlog(startMs: number, ms: number): BacklogFigures {
  const times = { startMs: [2], endMs: [20] };
  return {
    database: "SQLite",
    problem: null,
    waiting: 1_000_000,
    acceptedPerSecond: 1,
    alone: times,
    short: { startMs: [20], endMs: [40] },
    behind: { startMs: [startMs], endMs: [startMs + 20] },
    positionMs: [ms],
    pageMs: [ms],
    claimMs: [ms],
    storedPositionMs: [ms],
  };
}

const isMet = (figures: Partial<QueueFigures>): (boolean | null)[] =>
  judgeQueue({ ...NOTHING, ...figures }).map((verdict) => verdict.isMet);

verifies(
  "bench.verdicts",
  "runs must not be slower than before, nor much slower with priorities and fairness",
  () => {
    const pace = (...subjects: QueueSubject[]) => [{ database: "SQLite", subjects }];
    expect(isMet({ before: pace(subject("before", 100, 50), subject("now", 97, 48.5)) })).toEqual([true]);
    expect(isMet({ before: pace(subject("before", 100), subject("now", 96)) })).toEqual([false]);
    expect(isMet({ wishes: pace(subject("plain", 100), subject("wishes", 80)) })).toEqual([true]);
    expect(isMet({ wishes: pace(subject("plain", 100), subject("wishes", 79)) })).toEqual([false]);
  },
);

verifies(
  "bench.verdicts",
  "the queue does twice what pg-boss does; a peer that is not there meets no target",
  () => {
    const both = (ours: number) => [
      subject("millrace", ours),
      subject("boss", 100),
      subject("graphile", 900),
    ];
    const skipped: QueueSubject = { ...subject("boss"), status: "skipped", problem: "not installed" };
    const peers = (...subjects: QueueSubject[]) => ({
      peers: { database: "Postgres", single: subjects, batched: subjects },
    });
    expect(isMet(peers(...both(200)))).toEqual([true, true]);
    expect(isMet(peers(...both(199)))).toEqual([false, false]);
    expect(isMet(peers(subject("millrace", 200), skipped))).toEqual([null, null]);
    expect(isQueueSound({ ...NOTHING, ...peers(skipped) })).toBe(true);
    expect(isQueueSound({ ...NOTHING, ...peers({ ...skipped, status: "failed" }) })).toBe(false);
  },
);

verifies(
  "bench.verdicts",
  "one caller's million runs delay another's neither much nor what looks at them",
  () => {
    expect(isMet({ backlogs: [backlog(30, 20)] })).toEqual([true, true, true, true, true, true]);
    expect(isMet({ backlogs: [backlog(31, 21)] })).toEqual([false, false, false, false, false, false]);
    expect(isMet({ backlogs: [{ ...backlog(1, 1), problem: "it stopped" }] })).toEqual(Array(6).fill(null));
    expect(p95(Array.from({ length: 100 }, (_, i) => i + 1))).toBe(95);
  },
);

verifies("bench.verdicts", "lines are accepted fast, in memory that does not grow with them", () => {
  const lines: LinesFigures = {
    database: "SQLite",
    problem: null,
    lines: 1_000_000,
    acceptedPerSecond: 20_000,
    endedPerSecond: 1,
    tenthBytes: 100,
    acceptBytes: 125,
    executeBytes: 1,
  };
  expect(isMet({ lines: [lines] })).toEqual([true, true]);
  expect(isMet({ lines: [{ ...lines, acceptedPerSecond: 19_999, acceptBytes: 126 }] })).toEqual([
    false,
    false,
  ]);
  expect(isMet({ lines: [{ ...lines, problem: "a line came twice" }] })).toEqual([null, null]);
});

verifies("bench.verdicts", "the tables of the queue name what failed, and why", () => {
  const settings = {
    databases: [],
    parts: [],
    against: undefined,
    rounds: 1,
    measureMs: 1_000,
    many: 1,
    batch: 1,
  };
  const failed: QueueSubject = { ...subject("boss"), status: "failed", problem: "no such server" };
  const figures: QueueFigures = {
    ...NOTHING,
    peers: { database: "Postgres 18", single: [subject("millrace", 5_000), failed], batched: [] },
    backlogs: [backlog(30, 20)],
    problem: "the disk is full",
  };
  const text = queueText(MACHINE, { ...settings, profileDir: undefined }, figures, judgeQueue(figures));
  for (const part of [
    "failed: no such server",
    "5,000",
    "1,000,000 runs of one caller",
    "failed: the disk is full",
  ])
    expect(text).toContain(part);
});
