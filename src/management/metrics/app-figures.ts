import type { LiveApp } from "../../apps/catalog.ts";
import { type ErrorCode, ERRORS } from "../../model/errors.ts";
import { SETUP_FUNCTION } from "../../model/names.ts";
import type { QueuedRuns } from "../../store/runs/run-figures.ts";
import {
  CALLERS_CODE,
  FunctionTally,
  OTHER_FUNCTION,
  type RunTally,
  SERVER_FUNCTION,
} from "../../runs/run-tally.ts";
import { labelText } from "./page.ts";
import type { AppUsage } from "./replica-usage.ts";

/** How many functions of a node have series of their own; each has about seventy, and so has each app of theirs. */
export const MAX_FUNCTIONS = 1_000;
/** Of one app; the runs of its others are counted together. */
const MAX_FUNCTIONS_OF_APP = 100;

/** An app without a region of its own. */
const NO_REGION = "local";
const NO_RUNS = new FunctionTally();
const NO_USAGE: AppUsage = { cores: 0, bytes: 0 };

type Queued = Omit<QueuedRuns, "appNumber">;
const NONE_QUEUED: Queued = { count: 0, high: 0, normal: 0, low: 0, oldestAt: null };

type FunctionFigures = {
  readonly labels: string;
  readonly name: string;
  readonly tally: FunctionTally;
  readonly inFlight: number;
};

type GpuUsage = { readonly usedBytes: number; readonly percent: number };

/** What a scrape tells of one app, read once for all its metrics. */
export type AppFigures = {
  readonly own: string;
  /** The labels of the hosted original. */
  readonly hosted: string;
  readonly replicas: Readonly<Record<"starting" | "ready" | "draining", number>>;
  readonly running: number;
  readonly waiting: number;
  readonly oldestWaitMs: number;
  readonly counts: LiveApp["pool"]["counts"];
  /** The functions that the current version batches. */
  readonly batched: readonly string[];
  readonly isServer: boolean;
  readonly states: FunctionTally["states"];
  readonly failures: Readonly<Record<FailureCause, number>>;
  /** All its functions together; null if the bound leaves the app out. */
  readonly total: FunctionTally | null;
  readonly functions: readonly FunctionFigures[];
  /** Null while the database does not say. */
  readonly queued: Queued | null;
  readonly usage: AppUsage;
  readonly gpus: GpuUsage | null;
};

/** What is known beside the catalogue. */
export type Known = {
  readonly tally: RunTally;
  /** Those of apps without any are left out; null while the database does not say. */
  readonly queued: ReadonlyMap<number, QueuedRuns> | null;
  readonly usageOf: (app: AppNumber) => AppUsage | null;
  /** By project and name. */
  readonly gpusOf: (app: { readonly projectId: string; readonly name: string }) => GpuUsage | null;
};
type AppNumber = number;

/** Whose failure it was that a run failed. */
export const FAILURE_CAUSES = ["caller", "app"] as const;
type FailureCause = (typeof FAILURE_CAUSES)[number];

/** An app, and its versions that may have replicas, the current one first. */
export type OpenApp = { readonly live: LiveApp; readonly versions: readonly LiveApp[] };

/** What a scrape tells of all apps, and how many functions have no series of their own. */
export function figuresOf(
  apps: readonly OpenApp[],
  known: Known,
): { readonly apps: AppFigures[]; readonly leftOut: number } {
  let room = MAX_FUNCTIONS;
  let leftOut = 0;
  const figures = calledFirst(apps, known.tally).map((app) => {
    const names = callable(app.live);
    const size = Math.max(1, Math.min(names.length, MAX_FUNCTIONS_OF_APP));
    const isIn = size <= room;
    if (isIn) room -= size;
    leftOut += names.length - (isIn ? Math.min(names.length, MAX_FUNCTIONS_OF_APP) : 0);
    return figuresOfApp(app, isIn ? names.slice(0, MAX_FUNCTIONS_OF_APP) : null, known);
  });
  return { apps: figures, leftOut };
}

/** Apps by their first call, then those that were not called: so a series, once it has a value, stays. */
function calledFirst(apps: readonly OpenApp[], { byApp }: RunTally): readonly OpenApp[] {
  if (byApp.size === 0) return apps;
  const open = new Map(apps.map((app) => [app.live.app.number, app]));
  const called = [...byApp.keys()].flatMap((number) => open.get(number) ?? []);
  return [...called, ...apps.filter(({ live }) => !byApp.has(live.app.number))];
}

/** The names that calls may have; before its first start ever, nothing is known of an app. */
function callable({ version, pool }: LiveApp): string[] {
  if (version.config.customRuntime !== null) return [SERVER_FUNCTION];
  const names = pool.functions
    ? [...pool.functions.keys()]
    : (version.functions ?? []).map(({ name }) => name);
  return names.filter((name) => name !== SETUP_FUNCTION);
}

/** `names`: the functions that have series of their own; null if the app has none. */
function figuresOfApp(
  { live, versions }: OpenApp,
  names: readonly string[] | null,
  { tally, queued, usageOf, gpusOf }: Known,
): AppFigures {
  const { app, version, pool } = live;
  const { config } = version;
  const replicas = { starting: 0, ready: 0, draining: 0 };
  const inFlight = new Map<string, number>();
  let [running, waiting, oldestWaitMs] = [0, 0, 0];
  for (const { pool: each } of versions) {
    waiting += each.slots.waiting;
    oldestWaitMs = Math.max(oldestWaitMs, each.slots.oldestWaitMs);
    for (const { state, calls } of each.replicas) {
      if (state !== "gone") replicas[state] += 1;
      running += calls.size;
      if (names) countCalls(calls.values(), config.customRuntime !== null, inFlight);
    }
  }
  const ended = tally.byApp.get(app.number);
  const project = { project: app.projectId, app: app.name };
  const total = ended ? sumOf(ended.values()) : NO_RUNS;
  return {
    own: labelText(project),
    hosted: labelText({
      project_id: app.projectId,
      app_id: `${app.projectId}-${app.name}`,
      app_name: app.name,
      region: config.hardware.region ?? NO_REGION,
    }),
    replicas,
    running,
    waiting,
    oldestWaitMs,
    counts: pool.counts,
    batched: names ? Object.keys(config.batching ?? {}) : [],
    isServer: config.customRuntime !== null,
    states: total.states,
    failures: failuresOf(total),
    total: names && total,
    functions: names ? functionsOf(names, ended, inFlight, project) : [],
    queued: queued && (queued.get(app.number) ?? NONE_QUEUED),
    usage: usageOf(app.number) ?? NO_USAGE,
    gpus: gpusOf(app),
  };
}

function countCalls(
  calls: Iterable<{ readonly functionName: string }>,
  isServer: boolean,
  inFlight: Map<string, number>,
): void {
  for (const { functionName } of calls) {
    const name = isServer ? SERVER_FUNCTION : functionName;
    inFlight.set(name, (inFlight.get(name) ?? 0) + 1);
  }
}

function functionsOf(
  names: readonly string[],
  ended: ReadonlyMap<string, FunctionTally> | undefined,
  inFlight: ReadonlyMap<string, number>,
  project: Readonly<Record<string, string>>,
): FunctionFigures[] {
  const figures = (name: string, tally: FunctionTally): FunctionFigures => ({
    labels: labelText({ ...project, function: name }),
    name,
    tally,
    inFlight: inFlight.get(name) ?? 0,
  });
  const own = names.map((name) => figures(name, ended?.get(name) ?? NO_RUNS));
  const others = [...(ended ?? [])].filter(([name]) => !names.includes(name));
  if (others.length === 0) return own;
  return [...own, figures(OTHER_FUNCTION, sumOf(others.map(([, tally]) => tally)))];
}

function failuresOf({ codes, states }: FunctionTally): AppFigures["failures"] {
  let caller = 0;
  for (const [code, count] of codes) if (isCallers(code)) caller += count;
  return { caller, app: states.failure - caller };
}

/** Whether the error is one of 400 to 499. */
function isCallers(code: string): boolean {
  if (code === CALLERS_CODE) return true;
  return Object.hasOwn(ERRORS, code) && ERRORS[code as ErrorCode].status < 500;
}

function sumOf(tallies: Iterable<FunctionTally>): FunctionTally {
  const sum = new FunctionTally();
  for (const tally of tallies) sum.addAll(tally);
  return sum;
}
