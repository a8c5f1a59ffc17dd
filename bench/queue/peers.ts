import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import type { BenchDatabase } from "../async-database.ts";
import { type Child, runTool, startChild } from "../processes.ts";
import { progress } from "../progress.ts";
import { Skipped } from "../subject.ts";
import { type Ledger, measureRound, openLedger, type QueueRound } from "./rounds.ts";

const PEER_IDS = ["boss", "graphile"] as const;
export type PeerId = (typeof PEER_IDS)[number];

/** A way to run pg-boss; graphile-worker has one, that of its documents. */
export type PeerWay = {
  readonly batchSize: number;
  readonly localConcurrency: number;
  /** Told of new jobs, instead of looking twice a second. */
  readonly isNotified: boolean;
};

/** So many calls in flight for so long; or so many jobs in all, in portions, one after the other. */
export type SubmitJob =
  | { readonly inFlight: number; readonly measureMs: number }
  | { readonly count: number; readonly portion: number };

/** A queue on Postgres that ours is compared with. */
export type QueuePeer = {
  readonly id: PeerId;
  readonly name: string;
  readonly packageName: string;
  readonly ways: readonly PeerWay[];
  /** How many jobs are not done. */
  readonly unfinished: string;
  /** How many were done, where jobs are kept when they are. */
  readonly done: string | null;
};

const way = (batchSize: number, localConcurrency: number, isNotified: boolean): PeerWay => ({
  batchSize,
  localConcurrency,
  isNotified,
});

export const QUEUE_PEERS: readonly QueuePeer[] = [
  {
    id: "boss",
    name: "pg-boss",
    packageName: "pg-boss",
    ways: [
      way(100, 1, true),
      way(100, 4, false),
      way(1_000, 1, false),
      way(1_000, 1, true),
      way(1_000, 4, false),
    ],
    unfinished: "select count(*) from pgboss.job where state < 'completed'",
    done: "select count(*) from pgboss.job where state = 'completed'",
  },
  {
    id: "graphile",
    name: "graphile-worker",
    packageName: "graphile-worker",
    ways: [way(500, 24, true)],
    unfinished: "select count(*) from graphile_worker.jobs",
    done: null,
  },
];

const PACKAGES = join(import.meta.dirname, "../../.cache/bench-queue");
const WANTED = { "pg-boss": "12.35.0", "graphile-worker": "0.18.0" };
const INSTALL_LIMIT_MS = 180_000;
const POLL_MS = 20;
const END_MS = 120_000;

/** A peer that is up: a worker and a submitter, each a process. */
export type RunningPeer = {
  readonly note: string;
  readonly measure: (job: SubmitJob) => Promise<QueueRound>;
  /** Throws unless all that was submitted was done. */
  readonly check: () => Promise<void>;
  readonly stop: () => Promise<void>;
};

/** Which version is installed, in a folder of the bench that is made at the first use; throws `Skipped` where it cannot be. */
async function installedVersion({ packageName }: QueuePeer): Promise<string> {
  const version = () => {
    const file = join(PACKAGES, "node_modules", packageName, "package.json");
    return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
  };
  try {
    return version();
  } catch {
    // Absent or half made: made again below.
  }
  try {
    progress("pg-boss, graphile-worker: installing into .cache/bench-queue (once)");
    mkdirSync(PACKAGES, { recursive: true });
    writeFileSync(join(PACKAGES, "package.json"), JSON.stringify({ private: true, dependencies: WANTED }));
    const args = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"];
    await runTool("npm", args, { cwd: PACKAGES, limitMs: INSTALL_LIMIT_MS });
    return version();
  } catch (error) {
    throw new Skipped(`its packages cannot be installed here (${(error as Error).message})`, {
      cause: error,
    });
  }
}

/** Starts a peer on an empty database, in the way in which it gets most jobs done. */
export async function startBestPeer(
  peer: QueuePeer,
  database: BenchDatabase,
  trial: SubmitJob,
  profileDir: string | undefined,
): Promise<RunningPeer> {
  const version = await installedVersion(peer);
  const rated: { readonly way: PeerWay; readonly perSecond: number }[] = [];
  for (const [index, each] of (peer.ways.length > 1 ? peer.ways : []).entries()) {
    progress(`${peer.name}: trying ${wayText(each)}`);
    const { databaseUrl } = await database.place(`${peer.id}_try_${index}`);
    try {
      const running = await startPeer(peer, each, { databaseUrl: databaseUrl!, database });
      const { perSecond } = await running.measure(trial);
      await running.stop();
      rated.push({ way: each, perSecond });
    } catch (error) {
      // Another way may do better.
      progress(`${peer.name}, ${wayText(each)}: ${(error as Error).message}`);
    }
  }
  const best = rated.toSorted((a, b) => b.perSecond - a.perSecond)[0]?.way ?? peer.ways[0]!;
  const { databaseUrl } = await database.place(peer.id);
  const parts = { databaseUrl: databaseUrl!, database, profileDir };
  const running = await startPeer(peer, best, parts);
  return { ...running, note: `${peer.name} ${version}, ${running.note}` };
}

type PeerParts = {
  readonly databaseUrl: string;
  readonly database: BenchDatabase;
  readonly profileDir?: string | undefined;
};

async function startPeer(peer: QueuePeer, best: PeerWay, parts: PeerParts): Promise<RunningPeer> {
  const { databaseUrl, database, profileDir } = parts;
  const start = async (role: "work" | "submit"): Promise<Child> => {
    const script = join(import.meta.dirname, "peer-child.ts");
    const profile =
      profileDir === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${join(profileDir, peer.id)}`];
    const own = role === "work" ? profile : [];
    const args = [...own, script, role, peer.id, JSON.stringify(best), databaseUrl, PACKAGES];
    const child = startChild(process.execPath, args);
    await child.nextLine();
    return child;
  };
  const worker = await start("work");
  const submitter = await start("submit");
  const ledger: Ledger | null = await openLedger(databaseUrl);
  const client = new Client({ connectionString: databaseUrl });
  client.on("error", () => {});
  await client.connect();
  const count = async (statement: string): Promise<number> => {
    const { rows } = await client.query<{ count: string }>(statement);
    return Number(rows[0]?.count);
  };
  let submitted = 0;
  return {
    note: peer.ways.length > 1 ? wayText(best) : "the settings of its documents for throughput",
    measure: async (job) => {
      const roles = { service: [worker.pid], database: database.pids(), load: [submitter.pid] };
      return await measureRound({ roles, ledger }, async () => {
        submitter.send(JSON.stringify(job));
        const answer = JSON.parse(await submitter.nextLine()) as { submitted: number };
        submitted += answer.submitted;
        await allDone(worker, submitted, () => count(peer.unfinished));
        return answer.submitted;
      });
    },
    check: async () => {
      const done = peer.done === null ? submitted : await count(peer.done);
      if (done !== submitted) throw new Error(`${done} of ${submitted} jobs were done`);
    },
    stop: async () => {
      await client.end();
      await ledger?.close();
      for (const part of [submitter, worker]) await part.stop();
    },
  };
}

/** The worker is asked how many it has handled, which costs it nothing; the database only at the end, which costs a look at all. */
async function allDone(worker: Child, submitted: number, unfinished: () => Promise<number>): Promise<void> {
  const deadline = performance.now() + END_MS;
  const handled = async () => {
    worker.send("");
    return (JSON.parse(await worker.nextLine()) as { handled: number }).handled;
  };
  while ((await handled()) < submitted || (await unfinished()) > 0) {
    if (performance.now() > deadline) throw new Error(`jobs are unfinished after ${END_MS / 1000} s`);
    await pause(POLL_MS);
  }
}

function wayText({ batchSize, localConcurrency, isNotified }: PeerWay): string {
  const looks = isNotified ? "notified" : "polling";
  return `batches of ${batchSize}, ${localConcurrency} at once, ${looks}`;
}
