import { mkdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { describe, expect } from "vitest";
import { MILLRACE, run } from "../../support/command-line.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { verifies } from "../../verifies.ts";
import { POLITE, answer, deployPolite, during, scratch } from "../../integration/moved/site.ts";

const databases = testDatabases();

/** What installers, apps and their callers said is theirs; the service goes by none of it. */
const SAID = ["build_lines", "log_lines", "payloads", "transcripts"];

/** The tables that name a folder. */
async function tablesThatName(folder: string, { databaseUrl, dataDir }: TestDatabase): Promise<string[]> {
  const names = (table: string, rows: unknown): boolean =>
    !SAID.includes(table) && JSON.stringify(rows).includes(folder);
  if (databaseUrl === null) {
    const database = new DatabaseSync(path.join(dataDir, "millrace.db"), { readOnly: true });
    const tables = database.prepare("select name from sqlite_schema where type = 'table'").all();
    const found = tables.filter(({ name }) =>
      names(String(name), database.prepare(`select * from ${String(name)}`).all()),
    );
    database.close();
    return found.map(({ name }) => String(name));
  }
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const tables = await client.query<{ name: string }>(
    "select table_name as name from information_schema.tables where table_schema = current_schema()",
  );
  const found: string[] = [];
  for (const { name } of tables.rows) {
    if (names(name, (await client.query(`select * from ${name}`)).rows)) found.push(name);
  }
  await client.end();
  return found;
}

describe.each(DATABASE_KINDS)("a data directory with %s", (kind) => {
  verifies(
    "moved.starts",
    "is named nowhere in the database, works where it is moved to, and is saved and restored elsewhere",
    async () => {
      const folder = await scratch();
      const { databaseUrl } = await databases.fresh(kind);
      const first = { databaseUrl, dataDir: path.join(folder, "first") };
      await mkdir(first.dataDir);
      await during(first, async (service) => {
        await deployPolite(service, folder);
        expect(await answer(service)).toEqual(POLITE);
      });
      expect(await tablesThatName(first.dataDir, first)).toEqual([]);

      const second = { databaseUrl, dataDir: path.join(folder, "further", "second place") };
      await mkdir(path.dirname(second.dataDir));
      await rename(first.dataDir, second.dataDir);
      // Saved before a service has seen that it was moved.
      const url = databaseUrl === null ? {} : { MILLRACE_DATABASE_URL: databaseUrl };
      const file = path.join(folder, "backup.tar");
      const millrace = async (args: readonly string[], dataDir: string) => {
        const { code, stderr } = await run(MILLRACE, args, { env: { ...url, MILLRACE_DATA_DIR: dataDir } });
        expect([code, code === 0 ? "" : stderr]).toEqual([0, ""]);
      };
      await millrace(["backup", file], second.dataDir);
      expect(await during(second, (service) => answer(service))).toEqual(POLITE);
      // What was there before is not needed, and nothing of it was thrown away.
      expect(await during(second, (service) => answer(service))).toEqual(POLITE);

      const third = { databaseUrl, dataDir: path.join(folder, "third") };
      await millrace(["restore", file], third.dataDir);
      await rm(second.dataDir, { recursive: true });
      expect(await during(third, (service) => answer(service))).toEqual(POLITE);
    },
  );
});
