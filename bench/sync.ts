import { startCpuMeter } from "./cpu-meter.ts";
import { type LoadGenerator, startLoadGenerator } from "./load-client.ts";
import { type LoadResult, problemOf } from "./load-job.ts";
import { progress } from "./progress.ts";
import { CALL_BODY, type Running, Skipped, type Subject } from "./subject.ts";
import { turnOrder } from "./turn-order.ts";

export const CONNECTION_COUNTS = [32, 1] as const;
export type ConnectionCount = (typeof CONNECTION_COUNTS)[number];

export type SyncSettings = {
  readonly rounds: number;
  readonly measureMs: number;
  readonly warmUpMs: number;
};

/** A round, and the CPU time that the server's processes took for each call in it. */
export type SyncRound = LoadResult & { readonly cpuUs: number };

/** What one subject did: its rounds, or why there are none. */
export type SubjectResult = {
  readonly id: Subject["id"];
  readonly name: string;
  readonly note: string | null;
  readonly status: "measured" | "skipped" | "failed" | "invalid";
  readonly problem: string | null;
  readonly rounds: Readonly<Record<ConnectionCount, readonly SyncRound[]>>;
};

/** New connections and a change of subject: the first moments of a round say nothing. */
const LEAD_IN_MS = 250;

/** One subject during the run; only this file changes it. */
type Entry = {
  readonly subject: Subject;
  server: Running | null;
  status: SubjectResult["status"];
  problem: string | null;
  readonly rounds: Record<ConnectionCount, SyncRound[]>;
};

/**
 * Measures every subject under the same load. All are up from the start and take turns round by round, so
 * that a slow moment of a shared machine hits all of them alike.
 */
export async function measureSync(
  subjects: readonly Subject[],
  settings: SyncSettings,
): Promise<SubjectResult[]> {
  const entries: Entry[] = subjects.map((subject) => ({
    subject,
    server: null,
    status: "measured",
    problem: null,
    rounds: { 32: [], 1: [] },
  }));
  const generator = startLoadGenerator();
  for (const entry of entries) await startEntry(entry, generator, settings);
  for (const connections of CONNECTION_COUNTS) {
    for (let round = 0; round < settings.rounds; round++) {
      for (const entry of turnOrder(entries, round)) {
        if (entry.status !== "measured") continue;
        progress(`at ${connections}, round ${round + 1}/${settings.rounds}: ${entry.subject.name}`);
        await measureRound(entry, generator, connections, settings.measureMs);
      }
    }
  }
  for (const entry of entries) await entry.server?.stop();
  await generator.stop();
  return entries.map(({ subject, server, status, problem, rounds }) => ({
    id: subject.id,
    name: subject.name,
    note: server?.note ?? null,
    status,
    problem,
    rounds,
  }));
}

async function startEntry(entry: Entry, generator: LoadGenerator, settings: SyncSettings): Promise<void> {
  const { subject } = entry;
  progress(`starting ${subject.name}`);
  try {
    entry.server = await subject.start();
    await checkAnswer(subject, entry.server);
    progress(`warming up ${subject.name}`);
    const connections = Math.max(...CONNECTION_COUNTS);
    await generator.measure(entry.server, { connections, leadInMs: 0, measureMs: settings.warmUpMs });
  } catch (error) {
    entry.status = error instanceof Skipped ? "skipped" : "failed";
    entry.problem = (error as Error).message;
  }
}

/** A fast wrong answer is worth nothing: each subject answers once under our eyes. */
async function checkAnswer(subject: Subject, server: Running): Promise<void> {
  const response = await fetch(server.url, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...server.headers },
    body: CALL_BODY,
  });
  const text = await response.text();
  if (response.status !== 200 || !text.includes(subject.expects)) {
    throw new Error(`wrong answer, status ${response.status}: ${text.slice(0, 200)}`);
  }
}

async function measureRound(
  entry: Entry,
  generator: LoadGenerator,
  connections: ConnectionCount,
  measureMs: number,
): Promise<void> {
  if (entry.server === null) return;
  const meter = startCpuMeter({ service: [entry.server.pid], database: [], load: [generator.pid] });
  const result = await generator.measure(entry.server, { connections, leadInMs: LEAD_IN_MS, measureMs });
  const { serviceMs, belowMs } = meter();
  // Those of the lead-in took their time too.
  const answered = Object.values(result.statuses).reduce((sum, count) => sum + count, 0);
  entry.rounds[connections].push({ ...result, cpuUs: ((serviceMs + belowMs) * 1000) / answered });
  const problem = problemOf(result);
  if (problem !== null) {
    entry.status = "invalid";
    entry.problem = `at ${connections} connection(s): ${problem}`;
  }
}
