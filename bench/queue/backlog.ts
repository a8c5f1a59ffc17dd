import { join } from "node:path";
import { type DatabaseKind, openDatabase, type Place } from "../async-database.ts";
import { startLoadGenerator, type Target } from "../load-client.ts";
import { problemOf } from "../load-job.ts";
import { startChild, stopAll } from "../processes.ts";
import { progress } from "../progress.ts";
import { type MillraceRunning, startMillrace } from "../subjects/millrace.ts";
import { appPath, pageTimes, positionTimes } from "./looks.ts";
import { APP, IN_FLIGHT } from "./millrace-runner.ts";
import { callOneByOne, type CallerTimes, newCaller, workOf } from "./other-caller.ts";

/** One caller's many waiting runs, and what another caller and those who look on notice of them. Times in milliseconds. */
export type BacklogFigures = {
  readonly database: string;
  readonly problem: string | null;
  /** Runs that waited when the second line of the table was measured. */
  readonly waiting: number;
  readonly acceptedPerSecond: number;
  /** The other caller's runs with nothing else in the app, behind a short line, and behind all of them. */
  readonly alone: CallerTimes;
  readonly short: CallerTimes;
  readonly behind: CallerTimes;
  /** Over HTTP, while runs are executed: a record with its position, pages of the list. */
  readonly positionMs: readonly number[];
  readonly pageMs: readonly number[];
  /** In the store, by itself: what the dispatcher and a position ask it. */
  readonly claimMs: readonly number[];
  readonly storedPositionMs: readonly number[];
};

/** Of the other caller, in each place. */
const SAMPLES = 25;
/** A line that lasts longer than the samples beside it. */
const SHORT_LINE = 400;
const FILL_MS = 2_000;
const NO_TIMES: CallerTimes = { startMs: [], endMs: [] };
const NOTHING = {
  problem: null,
  waiting: 0,
  acceptedPerSecond: 0,
  alone: NO_TIMES,
  short: NO_TIMES,
  behind: NO_TIMES,
  positionMs: [],
  pageMs: [],
  claimMs: [],
  storedPositionMs: [],
};

/** Has one caller queue so many runs on a fresh service, and measures what that costs others. */
export async function measureBacklog(kind: DatabaseKind, runs: number): Promise<BacklogFigures> {
  progress(`starting ${kind} and the service`);
  const database = await openDatabase(kind);
  const figures = { ...NOTHING, database: database.version };
  try {
    const place = await database.place("backlog");
    const service = await startMillrace(place.dataDir, [APP], { databaseUrl: place.databaseUrl });
    const crowd = workOf(service, await newCaller(service, "crowd"));
    const other = workOf(service, await newCaller(service, "other"));
    progress(`${database.version}: a caller alone`);
    await callOneByOne(other, SAMPLES);
    const alone = await callOneByOne(other, SAMPLES);
    progress(`${database.version}: a caller behind ${SHORT_LINE} runs`);
    await submitAtOnce(crowd, SHORT_LINE);
    const short = await callOneByOne(other, SAMPLES);
    const filledFrom = Date.now();
    const { accepted, perSecond } = await fill(crowd, runs, database.version);
    progress(`${database.version}: a caller behind ${accepted} runs`);
    const behind = await callOneByOne(other, SAMPLES);
    progress(`${database.version}: positions and pages`);
    const positionMs = await positionTimes(service, new Date(filledFrom + FILL_MS));
    const pageMs = await pageTimes(service);
    await service.stop();
    progress(`${database.version}: claims`);
    const stored = await storeTimes(place, service);
    await database.stop();
    const waiting = accepted;
    return {
      ...figures,
      waiting,
      acceptedPerSecond: perSecond,
      alone,
      short,
      behind,
      positionMs,
      pageMs,
      ...stored,
    };
  } catch (error) {
    // What is left of it would be in the way of the next part.
    await stopAll();
    return { ...figures, problem: (error as Error).message };
  }
}

/** Exactly so many runs. */
async function submitAtOnce({ url, headers, body = "" }: Target, runs: number): Promise<void> {
  const submit = async () => {
    const typed = { ...headers, "Content-Type": "application/json" };
    const response = await fetch(url, { method: "POST", headers: typed, body });
    await response.text();
    if (response.status !== 202) throw new Error(`status ${response.status} of an async call`);
  };
  for (let left = runs; left > 0; left -= IN_FLIGHT)
    await Promise.all(Array.from({ length: Math.min(left, IN_FLIGHT) }, submit));
}

/** At least so many runs, as fast as they are accepted. */
async function fill(
  crowd: Target,
  runs: number,
  title: string,
): Promise<{ readonly accepted: number; readonly perSecond: number }> {
  const generator = startLoadGenerator();
  const startedAt = performance.now();
  let accepted = 0;
  while (accepted < runs) {
    progress(`${title}: ${accepted} of ${runs} runs are queued`);
    const pressure = { connections: IN_FLIGHT, leadInMs: 0, measureMs: FILL_MS };
    const result = await generator.measure(crowd, pressure);
    const problem = problemOf(result, 202);
    if (problem !== null) throw new Error(problem);
    accepted += result.statuses[202] ?? 0;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  await generator.stop();
  return { accepted, perSecond: accepted / seconds };
}

type StoreTimes = Pick<BacklogFigures, "claimMs" | "storedPositionMs">;

/** The service has ended: on SQLite the store is one process's alone. */
async function storeTimes({ dataDir, databaseUrl }: Place, service: MillraceRunning): Promise<StoreTimes> {
  const script = join(import.meta.dirname, "backlog-store.ts");
  const own = databaseUrl === null ? [] : [databaseUrl];
  const child = startChild(process.execPath, [script, appPath(service), dataDir, ...own]);
  const times = JSON.parse(await child.nextLine()) as StoreTimes;
  await child.stop();
  return times;
}
