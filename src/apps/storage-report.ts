import { lstat, readdir } from "node:fs/promises";
import path from "node:path";
import { AppError } from "../model/errors.ts";
import type { CountStep, CountedRows } from "../store/app-storage.ts";
import type { Store } from "../store/store.ts";

/** What is stored of one app. */
export type AppStorage = {
  readonly projectId: string;
  readonly name: string;
  readonly runs: number;
  /** Of inputs and results. */
  readonly payloadBytes: number;
  readonly transcriptBytes: number;
  readonly logBytes: number;
  readonly builds: number;
  readonly bundleBytes: number;
};

/** Who uses what of the disk and the database, in bytes. */
export type StorageReport = {
  readonly apps: readonly AppStorage[];
  readonly environmentBytes: number;
  /** The persistent storage of each project. */
  readonly volumes: readonly { readonly projectId: string; readonly bytes: number }[];
  /** The SQLite file and its log; 0 with Postgres. */
  readonly databaseBytes: number;
  /** Inside that file, for what comes next. */
  readonly freeBytes: number;
};

/** Of one step, of 10 s each. */
const STEP_TRIES = 6;

/** Looks through the data directory and the database. */
export async function storageReport(
  store: Pick<Store, "appStorage" | "space">,
  dataDir: string,
): Promise<StorageReport> {
  const apps: AppStorage[] = [];
  for (const { number: appNumber, ...app } of await patiently(() => store.appStorage.list())) {
    const bundles = path.join(dataDir, "bundles", app.projectId, app.name);
    apps.push({ ...app, ...(await amountsOf(store, appNumber)), bundleBytes: await bytesBelow(bundles) });
  }
  const volumes: { projectId: string; bytes: number }[] = [];
  for (const projectId of await namesIn(path.join(dataDir, "storage"))) {
    if (!projectId.startsWith("p-")) continue;
    volumes.push({ projectId, bytes: await bytesBelow(path.join(dataDir, "storage", projectId)) });
  }
  let databaseBytes = 0;
  for (const name of ["millrace.db", "millrace.db-wal"]) {
    databaseBytes += await bytesBelow(path.join(dataDir, name));
  }
  return {
    apps,
    volumes,
    databaseBytes,
    environmentBytes: await bytesBelow(path.join(dataDir, "environments")),
    freeBytes: await store.space.freeBytes(),
  };
}

/** Counted step by step: however much there is, nobody else waits for it. */
async function amountsOf(
  store: Pick<Store, "appStorage">,
  appNumber: number,
): Promise<Pick<AppStorage, "runs" | "payloadBytes" | "transcriptBytes">> {
  const count = async (table: CountStep["table"]): Promise<Omit<CountedRows, "last">> => {
    let [rows, bytes] = [0, 0];
    let after: CountedRows["last"] = null;
    do {
      const step: CountStep = { table, appNumber, after };
      const found = await patiently(() => store.appStorage.count(step));
      rows += found.rows;
      bytes += found.bytes;
      after = found.last;
    } while (after !== null);
    return { rows, bytes };
  };
  const { rows: runs } = await count("runs");
  const { bytes: payloadBytes } = await count("payloads");
  const { bytes: transcriptBytes } = await count("transcripts");
  return { runs, payloadBytes, transcriptBytes };
}

/** Figures that somebody asked for before may take all the time that a step has: it is asked for again. */
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
export async function bytesBelow(place: string): Promise<number> {
  const stats = await lstat(place).catch(() => null);
  if (!stats) return 0;
  let bytes = stats.blocks * 512;
  if (!stats.isDirectory()) return bytes;
  for (const name of await namesIn(place)) bytes += await bytesBelow(path.join(place, name));
  return bytes;
}

async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []);
}
