import { join } from "node:path";
import { openDatabase } from "../async-database.ts";
import { progress } from "../progress.ts";
import { Skipped } from "../subject.ts";
import { hasBatches, linesToEnd, NO_BATCHES } from "./lines.ts";
import { IN_FLIGHT, plainCalls, startSite, submitToEnd } from "./millrace-runner.ts";
import { QUEUE_PEERS, type RunningPeer, startBestPeer } from "./peers.ts";
import { absent, type QueueSubject, type Runner, takeTurns } from "./rounds.ts";

/** Ours and peers on one Postgres server, each with a database of its own. */
export type BesidePeers = {
  readonly database: string;
  /** Runs submitted one call at a time, and in batches. */
  readonly single: readonly QueueSubject[];
  readonly batched: readonly QueueSubject[];
};

export type PeerSettings = {
  readonly rounds: number;
  readonly measureMs: number;
  /** Runs of each batch. */
  readonly batch: number;
  readonly profileDir: string | undefined;
};

const OURS = { id: "millrace", name: "Millrace" };
/** Jobs that a peer takes at once. */
const PORTION = 1_000;

/** All are up at the same time and take turns. */
export async function measureBesidePeers(settings: PeerSettings): Promise<BesidePeers> {
  const { rounds, measureMs, batch, profileDir } = settings;
  progress("starting Postgres, the service and its peers");
  const database = await openDatabase("postgres");
  const site = await startSite(database, "millrace", {
    profileDir: profileDir && join(profileDir, "millrace"),
  });
  const calls = { inFlight: IN_FLIGHT, measureMs };
  const peers: { readonly id: string; readonly name: string; readonly running: RunningPeer }[] = [];
  const missing: QueueSubject[] = [];
  for (const peer of QUEUE_PEERS) {
    try {
      peers.push({ ...peer, running: await startBestPeer(peer, database, calls, profileDir) });
    } catch (error) {
      missing.push(absent(peer, error));
    }
  }
  const theirs = (job: Parameters<RunningPeer["measure"]>[0]): Runner[] =>
    peers.map(({ id, name, running }) => ({
      id,
      name,
      note: running.note,
      measure: () => running.measure(job),
      check: running.check,
    }));
  const ours: Runner = {
    ...OURS,
    note: null,
    measure: () => submitToEnd(site, plainCalls(site), measureMs),
    check: site.check,
  };
  const single = await takeTurns("one call at a time", [ours, ...theirs(calls)], rounds);
  const many = theirs({ count: batch, portion: PORTION });
  const canBatch = await hasBatches(site);
  if (canBatch) many.unshift({ ...ours, measure: () => linesToEnd(site, batch) });
  const batched = await takeTurns("in batches", many, rounds);
  for (const { running } of peers) await running.stop();
  await site.stop();
  await database.stop();
  const none = canBatch ? [] : [absent(OURS, new Skipped(NO_BATCHES))];
  return {
    database: database.version,
    single: [...single, ...missing],
    batched: [...none, ...batched, ...missing],
  };
}
