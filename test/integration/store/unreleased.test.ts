import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { expect, onTestFinished } from "vitest";
import { backup } from "../../../src/cli/operator/backup.ts";
import { checkDatabase } from "../../../src/cli/operator/doctor/data-checks.ts";
import { restore } from "../../../src/cli/operator/restore.ts";
import { storage } from "../../../src/cli/operator/storage.ts";
import { createLog } from "../../../src/kit/log.ts";
import { TarWriter } from "../../../src/kit/tar/archive.ts";
import { startService } from "../../../src/main.ts";
import { openStore } from "../../../src/store/store.ts";
import { inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { testDatabases } from "../../support/databases.ts";
import { testSettings } from "../../support/test-settings.ts";
import { verifies } from "../../verifies.ts";

const REFUSAL =
  /from before the first release.* left unchanged: use commit 56cff3b1 to read it, or start with/;
/** What a database of such a version holds, as far as it is looked at. */
const OLD_TABLES = `
  create table migrations (name varchar(255) not null primary key, timestamp varchar(255) not null);
  insert into migrations values ('0001-first-tables', ''), ('0021-call-accounts', '');
  create table meta (key text not null primary key, value text not null);
  insert into meta values ('instance_id', 'kept')`;

const databases = testDatabases();

function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-unreleased-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A data directory as such a version leaves it: when it stops, or when it is killed before it has folded its log in. */
function oldDirectory(end: "stopped" | "killed"): string {
  const [made, dataDir] = [scratch(), path.join(scratch(), "data")];
  const database = new DatabaseSync(path.join(made, "millrace.db"));
  database.exec(`pragma journal_mode = wal; ${OLD_TABLES}`);
  if (end === "stopped") database.close();
  cpSync(made, dataDir, { recursive: true });
  if (end === "killed") database.close();
  for (const name of ["lock.db", "master.key", "owner-token"]) writeFileSync(path.join(dataDir, name), name);
  mkdirSync(path.join(dataDir, "bundles"));
  return dataDir;
}

/** Every file with its bytes and the time of its last change; SQLite maps `-shm` into memory, and stores nothing there. */
function contentOf(folder: string): object {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted();
  const entries = names.map((name) => {
    const place = path.join(folder, name);
    const { mtimeMs } = statSync(place);
    const isData = statSync(place).isFile() && !name.endsWith("-shm");
    return [name, isData ? [mtimeMs, readFileSync(place).toString("base64")] : null];
  });
  return { entries, changedAt: statSync(folder).mtimeMs };
}

for (const end of ["stopped", "killed"] as const) {
  verifies(
    "upgrade.unreleased",
    `a data directory of a version that was ${end} is refused, and nothing in it changes`,
    async () => {
      const dataDir = oldDirectory(end);
      const before = contentOf(dataDir);
      expect(readdirSync(dataDir).includes("millrace.db-wal")).toBe(end === "killed");
      const settings = testSettings({ dataDir, apiPort: 0, basePort: 0 });
      await expect(startService(settings, { log: createLog("silent") })).rejects.toThrow(REFUSAL);
      await expect(storage({ dataDir })).rejects.toThrow(REFUSAL);
      await expect(backup(path.join(scratch(), "a.tar"), { dataDir })).rejects.toThrow(REFUSAL);
      expect(contentOf(dataDir)).toEqual(before);
    },
  );
}

verifies("upgrade.unreleased", "so is a Postgres database", async () => {
  const database = await databases.empty("postgres");
  const client = new Client({ connectionString: database.databaseUrl! });
  await client.connect();
  onTestFinished(() => client.end());
  const content = async (): Promise<unknown> => {
    const tables = await client.query(
      "select table_name, column_name from information_schema.columns where table_schema = 'public' order by 1, 2",
    );
    return [tables.rows, (await client.query("select name from migrations, meta order by 1")).rows];
  };
  await client.query(OLD_TABLES);
  const before = await content();
  const flags = { dataDir: database.dataDir, databaseUrl: database.databaseUrl!, apiPort: 0, basePort: 0 };
  const start = startService(testSettings(flags), { log: createLog("silent") });
  await expect(start).rejects.toThrow(REFUSAL);
  await expect(storage(flags)).rejects.toThrow(REFUSAL);
  const report = await inspectDatabase(database, true).catch((error: Error) => error);
  expect(checkDatabase(report)).toMatchObject([{ status: "fail", message: expect.stringMatching(REFUSAL) }]);
  expect(await content()).toEqual(before);
});

verifies("upgrade.unreleased", "so is an archive, and one of this format with such a database", async () => {
  const folder = scratch();
  const dataDir = path.join(folder, "data");
  const old = oldDirectory("stopped");
  for (const format of [1, 2]) {
    const file = path.join(folder, `format-${format}.tar`);
    const tar = await TarWriter.create(file);
    const manifest = { format, version: "0", created_at: "", store: "sqlite", data_dir: "/nowhere" };
    await tar.addBytes("manifest.json", Buffer.from(JSON.stringify(manifest)), 0);
    await tar.addBytes("millrace.db", readFileSync(path.join(old, "millrace.db")), 0);
    await tar.finish();
    await expect(restore(file, { dataDir })).rejects.toThrow(REFUSAL);
  }
  expect(readdirSync(folder).toSorted()).toEqual(["format-1.tar", "format-2.tar"]);
});

verifies("upgrade.unreleased", "but no database of this release is, new, killed or in use", async () => {
  const database = await databases.empty("sqlite");
  const first = await openStore(database);
  await first.meta.set({ key: "a", value: "b" });
  // As it is when the service is killed.
  const dataDir = path.join(scratch(), "data");
  cpSync(database.dataDir, dataDir, { recursive: true });
  await first.close();
  for (const place of [dataDir, database.dataDir]) {
    const settings = testSettings({ dataDir: place, apiPort: 0, basePort: 0 });
    const service = await startService(settings, { log: createLog("silent") });
    await expect(startService(settings, { log: createLog("silent") })).rejects.toThrow(/is in use/);
    await service.stop();
  }
});
