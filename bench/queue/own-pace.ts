import { resolve } from "node:path";
import { type BenchDatabase, type DatabaseKind, openDatabase } from "../async-database.ts";
import { progress } from "../progress.ts";
import { turnOrder } from "../turn-order.ts";
import { plainCalls, startSite, submitToEnd, wishfulCalls } from "./millrace-runner.ts";
import { type QueueSubject, type Runner, takeTurns } from "./rounds.ts";

/** Our own pace, held against itself. */
export type Pace = { readonly database: string; readonly subjects: readonly QueueSubject[] };

type PaceSettings = { readonly rounds: number; readonly measureMs: number };

/** Rounds of the same pair of services. */
const PAIR_ROUNDS = 2;

/** Runs that ask for nothing beside runs with priorities and fairness keys, on one service. */
export async function measureWishes(kind: DatabaseKind, settings: PaceSettings): Promise<Pace> {
  progress(`starting ${kind} and the service`);
  const database = await openDatabase(kind);
  const site = await startSite(database, "wishes");
  const runner = (id: string, name: string, calls = plainCalls(site)): Runner => ({
    id,
    name,
    note: null,
    measure: () => submitToEnd(site, calls, settings.measureMs),
    check: site.check,
  });
  const runners = [
    runner("plain", "nothing asked of the queue"),
    runner("wishes", "priorities and fairness keys", wishfulCalls(site)),
  ];
  const subjects = await takeTurns(database.version, runners, settings.rounds);
  await site.stop();
  await database.stop();
  return { database: database.version, subjects };
}

/**
 * This checkout beside another one, in pairs of fresh services with databases of their own: two services of the same kind
 * differ for as long as they live.
 */
export async function measureBefore(
  kind: DatabaseKind,
  checkout: string,
  settings: PaceSettings,
): Promise<Pace> {
  const database = await openDatabase(kind);
  const subjects: QueueSubject[] = [];
  for (let pair = 0; pair * PAIR_ROUNDS < settings.rounds; pair++) {
    const rounds = Math.min(PAIR_ROUNDS, settings.rounds - pair * PAIR_ROUNDS);
    const results = await measurePair(database, pair, resolve(checkout), { ...settings, rounds });
    for (const [index, result] of results.entries()) {
      const { rounds: earlier = [] } = subjects[index] ?? {};
      subjects[index] = { ...result, rounds: [...earlier, ...result.rounds] };
    }
    if (results.some(({ status }) => status !== "measured")) break;
  }
  await database.stop();
  return { database: database.version, subjects };
}

async function measurePair(
  database: BenchDatabase,
  pair: number,
  checkout: string,
  { rounds, measureMs }: PaceSettings,
): Promise<readonly QueueSubject[]> {
  const both = [
    { id: "before", name: "before", checkout },
    { id: "now", name: "this checkout", checkout: undefined },
  ];
  // The one that is started first differs from pair to pair.
  const sites = new Map<string, Awaited<ReturnType<typeof startSite>>>();
  for (const { id, checkout: from } of turnOrder(both, pair))
    sites.set(id, await startSite(database, `${id}_${pair}`, { checkout: from }));
  const runners = both.map(({ id, name }) => {
    const site = sites.get(id)!;
    const measure = () => submitToEnd(site, plainCalls(site), measureMs);
    return { id, name, note: null, measure, check: site.check };
  });
  const results = await takeTurns(`${database.version}, pair ${pair + 1}`, runners, rounds);
  for (const site of sites.values()) await site.stop();
  return results;
}
