import { Client } from "pg";
import { startCpuMeter } from "../cpu-meter.ts";
import type { Roles } from "../cpu-meter.ts";
import { progress } from "../progress.ts";
import { Skipped } from "../subject.ts";
import { turnOrder } from "../turn-order.ts";

/** One round: from before the first run is submitted until the last one has ended. All but the rate is per run. */
export type QueueRound = {
  readonly runs: number;
  readonly perSecond: number;
  /** Processor time of the service or worker with all that is below it, of the database, and of the submitter. */
  readonly serviceCpuUs: number;
  readonly databaseCpuUs: number;
  readonly loadCpuUs: number;
  /** Transactions that wrote, and the log of what they wrote; null on SQLite. */
  readonly writes: number | null;
  readonly logBytes: number | null;
  /** Cores that the rest of the machine took. */
  readonly othersCores: number;
};

/** Something that takes runs and executes them. */
export type Runner = {
  readonly id: string;
  readonly name: string;
  /** Which version runs, and how. */
  readonly note: string | null;
  readonly measure: () => Promise<QueueRound>;
  /** Throws unless all that it was given has come out well. */
  readonly check: () => Promise<void>;
};

/** What one runner did: its rounds, or why there are none. */
export type QueueSubject = Pick<Runner, "id" | "name" | "note"> & {
  readonly status: "measured" | "skipped" | "failed";
  readonly problem: string | null;
  readonly rounds: readonly QueueRound[];
};

/** How much a Postgres server has written since it was made. */
export type Ledger = {
  readonly read: () => Promise<{ readonly transactions: number; readonly bytes: number }>;
  readonly close: () => Promise<void>;
};

/** Reads what the server of a database has written; null for SQLite. */
export async function openLedger(databaseUrl: string | null): Promise<Ledger | null> {
  if (databaseUrl === null) return null;
  const client = new Client({ connectionString: databaseUrl });
  // It may end before this does; the next question then says so.
  client.on("error", () => {});
  await client.connect();
  return {
    read: async () => {
      const { rows } = await client.query<{ transactions: string; bytes: string }>(
        "select pg_snapshot_xmax(pg_current_snapshot()) as transactions, pg_current_wal_insert_lsn() - '0/0'::pg_lsn as bytes",
      );
      return { transactions: Number(rows[0]?.transactions), bytes: Number(rows[0]?.bytes) };
    },
    close: () => client.end(),
  };
}

/** Measures what submits some runs, waits until all have ended well, and resolves with how many they were. */
export async function measureRound(
  { roles, ledger }: { readonly roles: Roles; readonly ledger: Ledger | null },
  act: () => Promise<number>,
): Promise<QueueRound> {
  const before = await ledger?.read();
  const meter = startCpuMeter(roles);
  const startedAt = performance.now();
  const runs = await act();
  const seconds = (performance.now() - startedAt) / 1000;
  const { serviceMs, belowMs, databaseMs, loadMs, othersCores } = meter();
  const after = await ledger?.read();
  if (runs === 0) throw new Error("no run was accepted");
  return {
    runs,
    perSecond: runs / seconds,
    serviceCpuUs: ((serviceMs + belowMs) * 1000) / runs,
    databaseCpuUs: (databaseMs * 1000) / runs,
    loadCpuUs: (loadMs * 1000) / runs,
    writes: before && after ? (after.transactions - before.transactions) / runs : null,
    logBytes: before && after ? (after.bytes - before.bytes) / runs : null,
    othersCores,
  };
}

/** All processor time of a run. */
export function cpuOf({ serviceCpuUs, databaseCpuUs, loadCpuUs }: QueueRound): number {
  return serviceCpuUs + databaseCpuUs + loadCpuUs;
}

/** Measures runners that are up, in turns, after one round each that does not count. At the end each is checked. */
export async function takeTurns(
  title: string,
  runners: readonly Runner[],
  rounds: number,
): Promise<QueueSubject[]> {
  const entries = runners.map((runner) => ({
    runner,
    status: "measured" as QueueSubject["status"],
    problem: null as string | null,
    rounds: [] as QueueRound[],
  }));
  for (let round = -1; round < rounds; round++) {
    for (const entry of turnOrder(entries, Math.max(0, round))) {
      if (entry.status !== "measured") continue;
      const { name, measure, check } = entry.runner;
      progress(`${title}, ${round < 0 ? "warming up" : `round ${round + 1}/${rounds}`}: ${name}`);
      try {
        const result = await measure();
        if (round >= 0) entry.rounds.push(result);
        if (round === rounds - 1) await check();
      } catch (error) {
        entry.status = "failed";
        entry.problem = (error as Error).message;
      }
    }
  }
  return entries.map(({ runner: { id, name, note }, ...rest }) => ({ id, name, note, ...rest }));
}

/** A subject that did not start. */
export function absent({ id, name }: Pick<Runner, "id" | "name">, error: unknown): QueueSubject {
  const status = error instanceof Skipped ? "skipped" : "failed";
  return { id, name, note: null, status, problem: (error as Error).message, rounds: [] };
}
