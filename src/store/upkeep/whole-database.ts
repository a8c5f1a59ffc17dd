import path from "node:path";
import type { DatabaseReport } from "./report.ts";
import type { Settings } from "../../config/setting-keys.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Store } from "../store.ts";

type DatabaseLocation = Pick<Settings, "databaseUrl" | "dataDir">;

/** The name of the SQLite database in a data directory. */
export const DATABASE_FILE = "millrace.db";

/**
 * Reads the whole database; `isAlone` says that no service has it open. Calls `onBegun` after the first read, for which
 * a Postgres server has a time limit.
 */
export async function inspectDatabase(
  { databaseUrl, dataDir }: DatabaseLocation,
  isAlone: boolean,
  onBegun: () => void = () => {},
): Promise<DatabaseReport> {
  if (databaseUrl === null) {
    const { inspectSqlite } = await import("../sqlite/backup.ts");
    return await inspectSqlite(path.join(dataDir, DATABASE_FILE), isAlone, onBegun);
  }
  onBegun();
  return await (await import("../postgres/backup.ts")).inspectPostgres(databaseUrl);
}

/** Copies a snapshot of a SQLite database into a new file; a service may be using it. */
export async function copyDatabase(dataDir: string, to: string, isAlone: boolean): Promise<void> {
  await (await import("../sqlite/backup.ts")).copySqlite(path.join(dataDir, DATABASE_FILE), to, isAlone);
}

type InspectionParts<Report> = {
  /** Inspects the whole database; calls back after the first read. */
  readonly inspect: (onBegun: () => void) => Promise<Report>;
  /** Whether the database answers no calls. */
  readonly isSilent: () => boolean;
  readonly clock: Pick<Clock, "every" | "monotonic">;
};

type Look<Report> = {
  readonly report: Promise<Report>;
  readonly progress: { readonly startedAt: number; hasBegun: boolean };
};

/** A working disk returns the first page within this time; the rest depends on the size. */
const BEGIN_MS = 5_000;
const WATCH_MS = 1_000;

/**
 * Inspects the whole database, once at a time: concurrent callers get the same report. Callers do not wait for a disk
 * that hangs; its thread cannot be ended, and no other starts until it ends.
 */
export class Inspection<Report> {
  readonly #parts: InspectionParts<Report>;
  #look: Look<Report> | null = null;

  constructor(parts: InspectionParts<Report>) {
    this.#parts = parts;
  }

  /** Rejects when the database does not answer. */
  async report(): Promise<Report> {
    const look = (this.#look ??= this.#start());
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const watch = (): void => {
      if (this.#isStuck(look)) reject(new Error("the database, or the disk that it is on, does not answer"));
    };
    const timer = this.#parts.clock.every(WATCH_MS, watch);
    watch();
    try {
      return await Promise.race([look.report, silence]);
    } finally {
      timer.cancel();
    }
  }

  #start(): Look<Report> {
    const { inspect, clock } = this.#parts;
    const progress = { startedAt: clock.monotonic(), hasBegun: false };
    const report = inspect(() => (progress.hasBegun = true)).finally(() => (this.#look = null));
    // It may fail after all callers have given up.
    report.catch(() => {});
    return { report, progress };
  }

  #isStuck({ progress: { hasBegun, startedAt } }: Look<Report>): boolean {
    const { isSilent, clock } = this.#parts;
    return isSilent() || (!hasBegun && clock.monotonic() - startedAt >= BEGIN_MS);
  }
}

/** Inspects the database of a running service. */
export function inspectionOf(settings: DatabaseLocation, store: Pick<Store, "isSilent">, clock: Clock) {
  return new Inspection({
    inspect: (onBegun) => inspectDatabase(settings, false, onBegun),
    isSilent: () => store.isSilent("read") || store.isSilent("write"),
    clock,
  });
}
