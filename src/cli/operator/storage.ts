import { existsSync } from "node:fs";
import path from "node:path";
import { type Amounts, type StorageReport, storageReport } from "../../apps/storage-report.ts";
import type { Settings } from "../../config/setting-keys.ts";
import { readSettings } from "../../config/settings.ts";
import { schemaState } from "../../store/schema/migrate.ts";
import { isUnreleased, UnreleasedFormat } from "../../store/schema/unreleased.ts";
import { openStore } from "../../store/store.ts";
import { lockDirectory } from "../../store/upkeep/directory-lock.ts";
import { DATABASE_FILE } from "../../store/upkeep/whole-database.ts";
import { askService } from "../ask-service.ts";
import { CliFailure } from "../failure.ts";
import type { OperatorFlags } from "../options.ts";
import { bytes, fields, Output, tableOf } from "../output.ts";

/** `millrace storage`: how much each app uses, and the limits. */
export async function storage(flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const asked = await askService(settings.dataDir, "storage");
  const report = asked ? (asked.result as StorageReport) : await lookAlone(settings);
  new Output(flags).show(report, () => reportText(report));
}

/** Looks at the database as it is, with the directory locked: a report must not change anything. */
async function lookAlone(settings: Settings): Promise<StorageReport> {
  const { dataDir, databaseUrl } = settings;
  if (!existsSync(databaseUrl === null ? path.join(dataDir, DATABASE_FILE) : dataDir)) {
    throw new CliFailure(`nothing is stored in ${dataDir} yet`, { hint: "the first start creates it" });
  }
  const lock = lockDirectory(dataDir);
  try {
    const store = await openStore({ ...settings, isReadOnly: true });
    try {
      const migrations = await store.meta.migrations();
      if (isUnreleased(migrations)) throw new UnreleasedFormat("the database");
      const state = schemaState({ migrations });
      if (state === "older")
        throw new CliFailure("the database is from an earlier release and was not changed", {
          hint: "start the service once: that brings it up to date",
        });
      if (state === "newer")
        throw new CliFailure("the database is from a newer release", {
          hint: "use that release, or a later one",
        });
      // Without a service no app runs that this could slow down.
      return await storageReport(store, settings, null);
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}

function reportText(report: StorageReport): string {
  const { apps, deletedApps, used, limits, volumes, environmentBytes, databaseBytes, freeBytes } = report;
  const hasDeleted = Object.values(deletedApps).some((amount) => amount > 0);
  const rows: readonly (Amounts & { readonly name: string; readonly bundleBytes: number | null })[] = [
    ...apps.map((app) => ({ ...app, name: `${app.projectId}-${app.name}` })),
    ...(hasDeleted ? [{ ...deletedApps, name: "(deleted apps)", bundleBytes: null }] : []),
  ];
  return [
    tableOf(rows, {
      APP: ({ name }) => name,
      RUNS: ({ runs }) => String(runs),
      PAYLOADS: ({ payloadBytes }) => bytes(payloadBytes),
      TRANSCRIPTS: ({ transcriptBytes }) => bytes(transcriptBytes),
      LOGS: ({ logBytes }) => bytes(logBytes),
      BUILDS: ({ builds }) => String(builds),
      BUNDLES: ({ bundleBytes }) => (bundleBytes === null ? "-" : bytes(bundleBytes)),
    }),
    "\n",
    fields([
      ["runs", `${used.runs} of ${limits.maxRuns}`],
      ["payloads and transcripts", `${bytes(used.payloadBytes)} of ${bytes(limits.maxStorageBytes)}`],
      ["logs", `${bytes(used.logBytes)} of ${bytes(limits.maxLogBytes)}`],
      ["environments", bytes(environmentBytes)],
      ...volumes.map(({ projectId, bytes: stored }) => [`storage of ${projectId}`, bytes(stored)] as const),
      ["database", `${bytes(databaseBytes)}, with ${bytes(freeBytes)} free inside`],
    ]),
  ].join("");
}
