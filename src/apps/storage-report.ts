import { constants } from "node:fs";
import path from "node:path";
import { z } from "zod";
import type { Settings } from "../config/setting-keys.ts";
import type { StorageHelper } from "../engines/programs/storage-helper.ts";
import { lstat, open, readdir, withHandle } from "../kit/files.ts";
import { AppError } from "../model/errors.ts";
import type { CountedRows, CountStep } from "../store/apps/app-storage.ts";
import type { Store } from "../store/store.ts";

/** What is stored of an app, or of several. */
export type Amounts = {
  readonly runs: number;
  /** Of inputs and results. */
  readonly payloadBytes: number;
  readonly transcriptBytes: number;
  readonly logBytes: number;
  readonly builds: number;
};

type AppStorage = Amounts & {
  readonly projectId: string;
  readonly name: string;
  readonly bundleBytes: number;
};

/** How much the operator lets there be. */
export type StorageLimits = Pick<
  Settings,
  "maxRuns" | "maxStorageBytes" | "maxLogBytes" | "diskReserveBytes"
>;

/** Which app and project uses how much of the disk and the database, in bytes. */
export type StorageReport = {
  readonly apps: readonly AppStorage[];
  /** Of deleted apps: records that are kept for their time, and files that are still to be removed. */
  readonly deletedApps: Amounts;
  /** Of all apps, by the counters that the limits are held by: the same figures as doctor's. */
  readonly used: { readonly runs: number; readonly payloadBytes: number; readonly logBytes: number };
  readonly limits: StorageLimits;
  readonly environmentBytes: number;
  readonly volumes: readonly { readonly projectId: string; readonly bytes: number }[];
  /** The SQLite file and its log; 0 with Postgres. */
  readonly databaseBytes: number;
  /** Unused space inside that file. */
  readonly freeBytes: number;
};

const NOTHING: Amounts = { runs: 0, payloadBytes: 0, transcriptBytes: 0, logBytes: 0, builds: 0 };
/** Of one step, of 10 s each. */
const STEP_TRIES = 6;

export async function storageReport(
  store: Pick<Store, "appStorage" | "space" | "retention" | "logs">,
  settings: StorageLimits & Pick<Settings, "dataDir">,
  helper: Pick<StorageHelper, "ask"> | null,
): Promise<StorageReport> {
  const { dataDir } = settings;
  const apps: AppStorage[] = [];
  let deletedApps: Amounts = NOTHING;
  const listed = await patiently(() => store.appStorage.list());
  for (const { number, projectId, name, isDeleted, ...counted } of listed) {
    const amounts = { ...counted, ...(await amountsOf(store, number)) };
    if (isDeleted) {
      deletedApps = added(deletedApps, amounts);
      continue;
    }
    const bundleBytes = await bytesBelow(path.join(dataDir, "bundles", projectId, name));
    apps.push({ projectId, name, ...amounts, bundleBytes });
  }
  const { runs, bytes: payloadBytes } = await store.retention.usage();
  const volumes: { projectId: string; bytes: number }[] = [];
  for (const projectId of await namesIn(path.join(dataDir, "storage"))) {
    if (!projectId.startsWith("p-")) continue;
    const folder = path.join(dataDir, "storage", projectId);
    const bytes = helper ? await bytesTold(helper, projectId) : await bytesBelow(folder);
    volumes.push({ projectId, bytes });
  }
  let databaseBytes = 0;
  for (const name of ["millrace.db", "millrace.db-wal"])
    databaseBytes += await bytesBelow(path.join(dataDir, name));
  return {
    apps,
    deletedApps,
    used: { runs, payloadBytes, logBytes: await store.logs.usedBytes() },
    limits: storageLimits(settings),
    volumes,
    databaseBytes,
    environmentBytes: await bytesBelow(path.join(dataDir, "environments")),
    freeBytes: await store.space.freeBytes(),
  };
}

export function storageLimits(settings: StorageLimits): StorageLimits {
  const { maxRuns, maxStorageBytes, maxLogBytes, diskReserveBytes } = settings;
  return { maxRuns, maxStorageBytes, maxLogBytes, diskReserveBytes };
}

function added(a: Amounts, b: Amounts): Amounts {
  return {
    runs: a.runs + b.runs,
    payloadBytes: a.payloadBytes + b.payloadBytes,
    transcriptBytes: a.transcriptBytes + b.transcriptBytes,
    logBytes: a.logBytes + b.logBytes,
    builds: a.builds + b.builds,
  };
}

/** Counted step by step: however much there is, no other query waits for it. */
async function amountsOf({ appStorage }: Pick<Store, "appStorage">, appNumber: number) {
  const count = async (table: CountStep["table"]): Promise<Omit<CountedRows, "last">> => {
    let [rows, bytes] = [0, 0];
    let after: CountedRows["last"] = null;
    do {
      const step: CountStep = { table, appNumber, after };
      const found = await patiently(() => appStorage.count(step));
      rows += found.rows;
      bytes += found.bytes;
      after = found.last;
    } while (after !== null);
    return { rows, bytes };
  };
  const { rows: runs } = await count("runs");
  const { bytes: payloadBytes } = await count("payloads");
  const { bytes: checkpointBytes } = await count("checkpoints");
  const { bytes: transcriptBytes } = await count("transcripts");
  return { runs, payloadBytes: payloadBytes + checkpointBytes, transcriptBytes };
}

/** Retries a step that timed out: another report may have taken all its time. */
async function patiently<Result>(ask: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      const isLate = error instanceof AppError && error.code === "query_timeout";
      if (!isLate || attempt === STEP_TRIES) throw error;
    }
  }
}

/** What a file, or all below a folder, takes up on the disk; links are not followed. */
export async function bytesBelow(target: string): Promise<number> {
  const stats = await lstat(target).catch(() => null);
  if (!stats) return 0;
  let bytes = stats.blocks * 512;
  if (!stats.isDirectory()) return bytes;
  // Held open: an app may put a link in its place. One that lies too deep is not counted.
  const folder = await open(target, constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(() => null);
  if (!folder) return bytes;
  return await withHandle(folder, async ({ fd }) => {
    const here = `/proc/self/fd/${fd}`;
    for (const name of await namesIn(here)) bytes += await bytesBelow(`${here}/${name}`);
    return bytes;
  });
}

/** The same, counted by the project's own user. */
async function bytesTold(helper: Pick<StorageHelper, "ask">, projectId: string): Promise<number> {
  const answer = await helper.ask(projectId, { operation: "bytes" });
  return z.int().min(0).parse(answer);
}

async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []);
}
