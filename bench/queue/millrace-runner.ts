import { type BenchDatabase, type Place, type RunsView, viewRuns } from "../async-database.ts";
import { type LoadGenerator, startLoadGenerator, type Target } from "../load-client.ts";
import { problemOf } from "../load-job.ts";
import { type MillraceRunning, startMillrace } from "../subjects/millrace.ts";
import { type Ledger, measureRound, openLedger, type QueueRound } from "./rounds.ts";

/** A fresh service with the no-op app, and what submits runs to it. */
export type MillraceSite = {
  readonly service: MillraceRunning;
  readonly database: BenchDatabase;
  readonly place: Place;
  readonly view: RunsView;
  readonly generator: LoadGenerator;
  readonly ledger: Ledger | null;
  /** Runs that must have ended well. */
  accepted: number;
  /** Throws unless all accepted runs have ended well. */
  readonly check: () => Promise<void>;
  readonly stop: () => Promise<void>;
};

/** As many calls as `bench async` has in flight. */
export const IN_FLIGHT = 64;
export const APP = "noop";
const LEAD_IN_MS = 250;

/** Callers of one app that all wait in lines of their own, and ask for different head starts. */
const FAIRNESS_KEYS = ["ada", "bo", "cy", "dee"] as const;
const PRIORITIES = ["low", "normal", "high", "90"] as const;

/** Starts a service on an empty database of that name. */
export async function startSite(
  database: BenchDatabase,
  name: string,
  options: { readonly checkout?: string | undefined; readonly profileDir?: string | undefined } = {},
): Promise<MillraceSite> {
  const place = await database.place(name);
  const { databaseUrl } = place;
  const service = await startMillrace(place.dataDir, [APP], { databaseUrl, ...options });
  const view = await viewRuns(place);
  const generator = startLoadGenerator();
  const ledger = await openLedger(databaseUrl);
  const site: MillraceSite = {
    service,
    database,
    place,
    view,
    generator,
    ledger,
    accepted: 0,
    check: async () => {
      const successes = await view.successes();
      if (successes === site.accepted) return;
      throw new Error(`${successes} of ${site.accepted} accepted runs ended well`);
    },
    stop: async () => {
      for (const part of [view, ledger]) await part?.close();
      for (const part of [generator, service]) await part.stop();
    },
  };
  return site;
}

/** A call that asks for nothing of the queue. */
export function plainCalls({ service }: MillraceSite): Target[] {
  return [{ url: `${service.callUrl(APP)}?async=true`, headers: service.headers }];
}

/** Calls with each priority in each line. */
export function wishfulCalls({ service }: MillraceSite): Target[] {
  return FAIRNESS_KEYS.flatMap((key) =>
    PRIORITIES.map((priority) => ({
      url: `${service.callUrl(APP)}?async=true&priority=${priority}`,
      headers: { ...service.headers, "X-Millrace-Fairness-Key": key },
    })),
  );
}

/** Submits for so long, one call at a time on each connection, while runs are executed; then waits for the last. */
export async function submitToEnd(
  site: MillraceSite,
  calls: readonly Target[],
  measureMs: number,
): Promise<QueueRound> {
  const { service, database, generator, view, ledger } = site;
  const roles = { service: [service.pid], database: database.pids(), load: [generator.pid] };
  return await measureRound({ roles, ledger }, async () => {
    const pressure = { connections: IN_FLIGHT, leadInMs: LEAD_IN_MS, measureMs };
    const result = await generator.measure(calls, pressure);
    const problem = problemOf(result, 202);
    if (problem !== null) throw new Error(problem);
    const runs = result.statuses[202] ?? 0;
    site.accepted += runs;
    await view.allEnded();
    return runs;
  });
}
