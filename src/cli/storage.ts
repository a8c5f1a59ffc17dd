import { existsSync } from "node:fs";
import path from "node:path";
import { storageReport } from "../apps/storage-report.ts";
import type { StorageReport } from "../apps/storage-report.ts";
import { readSettings } from "../config/settings.ts";
import type { Settings } from "../config/setting-keys.ts";
import { lockDirectory } from "../store/directory-lock.ts";
import { schemaState } from "../store/schema-state.ts";
import { openStore } from "../store/store.ts";
import { DATABASE_FILE } from "../store/upkeep.ts";
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
  process.stdout.write(flags["json"] ? `${JSON.stringify(report)}\n` : printed(report, settings));
}

/** Looks at the database as it is, with the directory locked: whoever asks who uses what wants nothing changed. */
async function lookAlone(settings: Settings): Promise<StorageReport> {
  const { dataDir, databaseUrl } = settings;
  if (!existsSync(databaseUrl === null ? path.join(dataDir, DATABASE_FILE) : dataDir)) {
    throw new CliFailure(`there is nothing stored in ${dataDir} yet`, { hint: "the first start makes it" });
  }
  const lock = lockDirectory(dataDir);
  try {
    const store = await openStore({ ...settings, isReadOnly: true });
    try {
      const state = schemaState({ migrations: await store.meta.migrations() });
      if (state !== "current") throw otherRelease(state);
      return await storageReport(store, settings.dataDir);
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}

function otherRelease(state: "older" | "newer"): CliFailure {
  return state === "older"
    ? new CliFailure("the database is of an earlier release, and was left as it is", {
        hint: "start the service once: that brings it up to date",
      })
    : new CliFailure("the database is of a newer release", { hint: "use that release, or a later one" });
}

function printed(report: StorageReport, { maxRuns, maxStorageBytes, maxLogBytes }: Settings): string {
  const { apps, volumes, environmentBytes, databaseBytes, freeBytes } = report;
  const sum = (amount: (app: (typeof apps)[number]) => number): number =>
    apps.reduce((total, app) => total + amount(app), 0);
  const payloads = sum(({ payloadBytes, transcriptBytes }) => payloadBytes + transcriptBytes);
  return [
    table(
      ["APP", "RUNS", "PAYLOADS", "TRANSCRIPTS", "LOGS", "BUILDS", "BUNDLES"],
      apps.map((app) => [
        `${app.projectId}-${app.name}`,
        String(app.runs),
        bytes(app.payloadBytes),
        bytes(app.transcriptBytes),
        bytes(app.logBytes),
        String(app.builds),
        bytes(app.bundleBytes),
      ]),
    ),
    "\n",
    fields([
      ["runs", `${sum(({ runs }) => runs)} of ${maxRuns}`],
      ["payloads and transcripts", `${bytes(payloads)} of ${bytes(maxStorageBytes)}`],
      ["logs", `${bytes(sum(({ logBytes }) => logBytes))} of ${bytes(maxLogBytes)}`],
      ["environments", bytes(environmentBytes)],
      ...volumes.map(({ projectId, bytes: used }) => [`storage of ${projectId}`, bytes(used)] as const),
      ["database", `${bytes(databaseBytes)}, of which ${bytes(freeBytes)} are free inside`],
    ]),
  ].join("");
}
