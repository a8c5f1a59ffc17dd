import { openDatabase, viewRuns } from "./async-database.ts";
import type { BenchDatabase, DatabaseKind, RunsView } from "./async-database.ts";
import { type DispatchResult, measureDispatch } from "./async-dispatch.ts";
import { type GroupCommit, type GroupCommitResult, startGroupCommit } from "./async-floor-client.ts";
import { type CpuUse, startCpuMeter } from "./cpu-meter.ts";
import { type LoadGenerator, startLoadGenerator } from "./load-client.ts";
import { type LoadResult, problemOf } from "./load-job.ts";
import { progress } from "./progress.ts";
import type { Running } from "./subject.ts";
import { type MillraceRunning, startMillrace } from "./subjects/millrace.ts";
import { timedCall } from "./timed-call.ts";
import { turnOrder } from "./turn-order.ts";

export type AsyncSettings = {
  readonly database: DatabaseKind;
  readonly rounds: number;
  readonly measureMs: number;
  /** Where the service's CPU profiles go. */
  readonly profileDir: string | undefined;
};

/** 202s under load. CPU time is per run, of all runs that were accepted. */
export type AcceptRound = LoadResult & {
  readonly serviceCpuUs: number;
  readonly databaseCpuUs: number;
  readonly othersCores: number;
  /** Runs per second: with the replica held from its release, else from the first call, until all have ended. */
  readonly finishedPerSecond: number;
};

/** All rounds of each measurement, or why there are none. */
export type AsyncResult = {
  readonly database: string;
  readonly problem: string | null;
  readonly floor: readonly GroupCommitResult[];
  readonly held: readonly AcceptRound[];
  readonly draining: readonly AcceptRound[];
  readonly dispatch: readonly DispatchResult[];
};

/** What is up during the run. */
type Site = {
  readonly database: BenchDatabase;
  readonly service: MillraceRunning;
  readonly floor: GroupCommit;
  readonly generator: LoadGenerator;
  readonly view: RunsView;
  /** Runs that must have ended well. */
  accepted: number;
};

export const CONNECTIONS = 64;
const APP = "noop";
const LEAD_IN_MS = 250;
const WARM_UP_MS = 1_000;
/** Enough to have the service's code compiled; a slow machine does not get that far in one second. */
const WARM_UP_RUNS = 10_000;
const MAX_WARM_UPS = 5;
/** How much longer than the load the replica is held. */
const HOLD_MARGIN_MS = 1_000;
const DISPATCHED_RUNS = 200;

/** Measures accepting, finishing and dispatching in turns, beside the bare group commit of the same database. */
export async function measureAsync(settings: AsyncSettings): Promise<AsyncResult> {
  const rounds = {
    floor: [] as GroupCommitResult[],
    held: [] as AcceptRound[],
    draining: [] as AcceptRound[],
    dispatch: [] as DispatchResult[],
  };
  let version = settings.database as string;
  try {
    const site = await openSite(settings);
    version = site.database.version;
    await warmUp(site);
    const { measureMs } = settings;
    const turns = [
      async () => rounds.floor.push(await bare(site, measureMs)),
      async () => rounds.held.push(await acceptHeld(site, measureMs)),
      async () => rounds.draining.push(await acceptAndFinish(site, measureMs)),
      async () => rounds.dispatch.push(await dispatch(site)),
    ];
    for (let round = 0; round < settings.rounds; round++) {
      for (const [turn, measure] of turnOrder(turns, round).entries()) {
        progress(`${version}, round ${round + 1}/${settings.rounds}, ${turn + 1}/${turns.length}`);
        await measure();
      }
    }
    await closeSite(site);
    return { database: version, problem: null, ...rounds };
  } catch (error) {
    return { database: version, problem: (error as Error).message, ...rounds };
  }
}

async function openSite({ database: kind, profileDir }: AsyncSettings): Promise<Site> {
  progress(`starting ${kind} and the service`);
  const database = await openDatabase(kind);
  const place = await database.place("service");
  const { databaseUrl } = place;
  const service = await startMillrace(place.dataDir, [APP], { databaseUrl, profileDir });
  const view = await viewRuns(place);
  const floor = startGroupCommit(await database.place("floor"));
  return { database, service, floor, generator: startLoadGenerator(), view, accepted: 0 };
}

/** Every run that was accepted has ended well, or all of it counts for nothing. */
async function closeSite({ database, service, floor, generator, view, accepted }: Site): Promise<void> {
  const successes = await view.successes();
  await view.close();
  for (const part of [generator, service, floor, database]) await part.stop();
  if (successes !== accepted) throw new Error(`${successes} of ${accepted} accepted runs ended well`);
}

async function warmUp(site: Site): Promise<void> {
  progress("warming up");
  await bare(site, WARM_UP_MS);
  for (let i = 0; i < MAX_WARM_UPS && site.accepted < WARM_UP_RUNS; i++) {
    await acceptAndFinish(site, WARM_UP_MS);
  }
}

function bare({ floor }: Site, measureMs: number): Promise<GroupCommitResult> {
  return floor.measure({ inFlight: CONNECTIONS, leadInMs: LEAD_IN_MS, measureMs });
}

/** With the only replica held by a call: nothing is executed meanwhile, accepting is all the work. */
async function acceptHeld(site: Site, measureMs: number): Promise<AcceptRound> {
  const { service, view } = site;
  const from = monotonicSeconds();
  const until = from + (LEAD_IN_MS + measureMs + HOLD_MARGIN_MS) / 1000;
  const holding = timedCall(service.callUrl(APP, "hold"), service.headers, JSON.stringify({ until }));
  const round = await accept(site, measureMs);
  const endedAt = monotonicSeconds();
  const { result } = await holding;
  await view.allEnded();
  if (Number(result["began"]) > from + LEAD_IN_MS / 1000 || endedAt > until) {
    throw new Error("the replica was not held during all of the load");
  }
  return { ...round, finishedPerSecond: runsOf(round) / (monotonicSeconds() - until) };
}

/** As it comes: the replica executes what has been accepted. */
async function acceptAndFinish(site: Site, measureMs: number): Promise<AcceptRound> {
  const from = monotonicSeconds();
  const round = await accept(site, measureMs);
  await site.view.allEnded();
  return { ...round, finishedPerSecond: runsOf(round) / (monotonicSeconds() - from) };
}

async function accept(site: Site, measureMs: number): Promise<Omit<AcceptRound, "finishedPerSecond">> {
  const { service, database, generator } = site;
  const meter = startCpuMeter({ service: [service.pid], database: database.pids(), load: [generator.pid] });
  const pressure = { connections: CONNECTIONS, leadInMs: LEAD_IN_MS, measureMs };
  const result = await generator.measure(submitting(service, "run"), pressure);
  const use: CpuUse = meter();
  const problem = problemOf(result, 202);
  if (problem !== null) throw new Error(problem);
  const runs = runsOf(result);
  site.accepted += runs;
  return {
    ...result,
    serviceCpuUs: (use.serviceMs * 1000) / runs,
    databaseCpuUs: (use.databaseMs * 1000) / runs,
    othersCores: use.othersCores,
  };
}

async function dispatch(site: Site): Promise<DispatchResult> {
  const result = await measureDispatch(submitting(site.service, "moment"), DISPATCHED_RUNS);
  site.accepted += result.runs;
  return result;
}

function submitting({ callUrl, headers, pid, stop }: MillraceRunning, functionName: string): Running {
  return { url: `${callUrl(APP, functionName)}?async=true`, headers, pid, stop };
}

function runsOf({ statuses }: LoadResult | Omit<AcceptRound, "finishedPerSecond">): number {
  return statuses[202] ?? 0;
}

function monotonicSeconds(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}
