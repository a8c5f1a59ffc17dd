import { mkdtempSync, rmSync, watch, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished } from "vitest";
import { checkDatabase } from "../../../src/cli/checks.ts";
import { createLog } from "../../../src/kit/log.ts";
import { Lifecycle } from "../../../src/kit/lifecycle.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { openInstallation } from "../../../src/identity/installation.ts";
import { openStore } from "../../../src/store/store.ts";
import { enableVacuum } from "../../../src/store/sqlite/vacuum.ts";
import type { RewriteStep } from "../../../src/store/sqlite/vacuum.ts";
import { inspectDatabase } from "../../../src/store/upkeep.ts";
import { Tail } from "../../support/explain.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** A database of this schema, of 12 MB, that cannot give room back. */
async function oldDatabase(): Promise<{ dataDir: string; databaseUrl: null; file: string }> {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-rewrite-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  await (await openStore({ dataDir, databaseUrl: null })).close();
  const file = path.join(dataDir, "millrace.db");
  const database = new DatabaseSync(file);
  database.exec("pragma journal_mode = delete; pragma auto_vacuum = 0; vacuum; create table ballast (b)");
  for (let i = 0; i < 12; i++) database.exec("insert into ballast values (randomblob(1000000))");
  database.close();
  return { dataDir, databaseUrl: null, file };
}

verifies("storage.rewrite", "the copy goes beside the database, and begin and end are logged", async () => {
  const place = await oldDatabase();
  const names: string[] = [];
  const watcher = watch(place.dataDir, (_, name) => names.push(String(name)));
  onTestFinished(() => watcher.close());
  const { settings } = readSettings({ flags: { dataDir: place.dataDir }, env: {} });
  const tail = new Tail();
  const life = new Lifecycle();
  await openInstallation(settings, systemClock, life, { log: createLog("info", tail) });
  await life.stop();
  expect(tail.text).toMatch(
    /"bytes":1\d{7},"msg":"rewriting the database once[^]*"msg":"the database has been rewritten"/,
  );
  // Names come in the order of their making.
  writeFileSync(path.join(place.dataDir, "marker"), "");
  await until("the names until now are heard", () => names.includes("marker"));
  expect(names.filter((name) => name.startsWith("etilqs_"))).not.toEqual([]);
  expect(checkDatabase(await inspectDatabase(place, true))[0]).toMatchObject({ status: "ok" });
});

verifies(
  "storage.rewrite",
  "one that cannot be written anew stays as it is; why is told, and by doctor",
  async () => {
    const place = await oldDatabase();
    const steps: RewriteStep[] = [];
    const database = new DatabaseSync(place.file);
    onTestFinished(() => database.close());
    // Nothing can be written anew within a transaction.
    database.exec("begin");
    enableVacuum(database, place.file, (step) => steps.push(step));
    database.exec("rollback");
    expect(steps).toEqual([
      { step: "begun", bytes: expect.any(Number) },
      { step: "failed", reason: "cannot VACUUM from within a transaction" },
    ]);
    expect(database.prepare("select count(*) as count from ballast").get()).toEqual({ count: 12 });
    const [finding] = checkDatabase(await inspectDatabase(place, true));
    expect(finding).toMatchObject({ status: "warn", remedy: expect.stringMatching(/has 3\d MB free/) });
  },
);
