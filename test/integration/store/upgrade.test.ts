import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { describe, expect } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { DATABASE_FILE, inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { EXAMPLE, NEXT_MIGRATIONS, upgradeToNext } from "../../support/example-migration.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

async function ask({ databaseUrl, dataDir }: TestDatabase, query: string): Promise<unknown[]> {
  if (databaseUrl === null) {
    const database = new DatabaseSync(path.join(dataDir, DATABASE_FILE), { readOnly: true });
    const rows = database.prepare(query).all();
    database.close();
    return rows;
  }
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query(query);
  await client.end();
  return rows as unknown[];
}

/** A database with an app and a queued run of it. */
async function filled(kind: (typeof DATABASE_KINDS)[number]) {
  const database = await databases.fresh(kind);
  const store = await openStore(database);
  await store.projects.insert({ id: "p-one", name: "one", createdAt: 1 });
  const { number: appNumber } = await store.apps.insertOrFind({
    projectId: "p-one",
    name: "app",
    createdAt: 1,
  });
  const run = queuedRun({ appNumber });
  const payload = samplePayload({ input: Buffer.from("12345") });
  await store.runs.accept([{ run, payload, owner: null }]);
  await store.close();
  return { database, run };
}

describe.each(DATABASE_KINDS)("an upgrade on %s", (kind) => {
  verifies("show.upgrade", "takes only the step that is missing, and keeps what is stored", async () => {
    const { database, run } = await filled(kind);
    await upgradeToNext(database);
    await upgradeToNext(database);
    expect(await ask(database, "select name from migrations order by name")).toMatchObject(
      Object.keys(NEXT_MIGRATIONS).map((name) => ({ name })),
    );
    expect(await ask(database, "select example from apps")).toMatchObject([{ example: "app" }]);
    expect(await ask(database, "select example from runs")).toMatchObject([{ example: 7 }]);
    const { objects } = await inspectDatabase(database, true);
    expect(objects).toEqual(expect.arrayContaining(["column apps.example", "column runs.example"]));
    if (kind === "sqlite") return;
    // On Postgres this release goes on beside the next one.
    const store = await openStore(database);
    expect(await store.runs.find(run)).toMatchObject({ id: run.id, state: "queued" });
    expect((await store.payloads.find(run))?.input).toEqual(Buffer.from("12345"));
    await store.close();
  });

  verifies("upgrade.whole", "that fails in its last step changes nothing", async () => {
    const { database } = await filled(kind);
    const migrations = {
      ...NEXT_MIGRATIONS,
      "0003-broken": () => Promise.reject(new Error("no such luck")),
    };
    await expect(upgradeToNext(database, {}, migrations)).rejects.toThrow("no such luck");
    const { objects, migrations: applied } = await inspectDatabase(database, true);
    expect(applied).not.toContain(EXAMPLE);
    expect(objects).not.toContain("column apps.example");
    await (await openStore(database)).close();
  });
});
