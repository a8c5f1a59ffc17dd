import { existsSync } from "node:fs";
import path from "node:path";
import { storageReport } from "../apps/storage-report.ts";
import type { Amounts, StorageReport } from "../apps/storage-report.ts";
import { readSettings } from "../config/settings.ts";
import type { Settings } from "../config/setting-keys.ts";
import { lockDirectory } from "../store/upkeep/directory-lock.ts";
import { schemaState } from "../store/schema/migrate.ts";
import { openStore } from "../store/store.ts";
import { isUnreleased, UnreleasedFormat } from "../store/schema/unreleased.ts";
import { DATABASE_FILE } from "../store/upkeep/whole-database.ts";
import { askService } from "./ask-service.ts";
import { CliFailure } from "./failure.ts";
import { bytes } from "./output/amounts.ts";
import { fields, table } from "./output/table.ts";
import type { ServeFlags } from "./serve.ts";

/** `millrace storage`: who uses what, and how much of it there may be. */
export async function storage(flags: ServeFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const asked = await askService(settings.dataDir, "storage");
  const report = asked ? (asked.result as StorageReport) : await lookAlone(settings);
  process.stdout.write(flags["json"] ? `${JSON.stringify(report)}\n` : printed(report));
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
      if (state !== "current") throw otherRelease(state);
      // No service runs, and so no app: there is nobody to be careful of.
      return await storageReport(store, settings, null);
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}

function otherRelease(state: "older" | "newer"): CliFailure {
  return state === "older"
    ? new CliFailure("the database is from an earlier release and was not changed", {
        hint: "start the service once: that brings it up to date",
      })
    : new CliFailure("the database is from a newer release", { hint: "use that release, or a later one" });
}

function printed(report: StorageReport): string {
  const { apps, deletedApps, used, limits, volumes, environmentBytes, databaseBytes, freeBytes } = report;
  const row = (name: string, amounts: Amounts, bundles: string): string[] => [
    name,
    String(amounts.runs),
    bytes(amounts.payloadBytes),
    bytes(amounts.transcriptBytes),
    bytes(amounts.logBytes),
    String(amounts.builds),
    bundles,
  ];
  const hasDeleted = Object.values(deletedApps).some((amount) => amount > 0);
  return [
    table(
      ["APP", "RUNS", "PAYLOADS", "TRANSCRIPTS", "LOGS", "BUILDS", "BUNDLES"],
      [
        ...apps.map((app) => row(`${app.projectId}-${app.name}`, app, bytes(app.bundleBytes))),
        ...(hasDeleted ? [row("(deleted apps)", deletedApps, "-")] : []),
      ],
    ),
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
