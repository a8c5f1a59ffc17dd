import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { describe, expect } from "vitest";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { MIGRATIONS } from "../../../src/store/schema/migrate.ts";
import { openStore } from "../../../src/store/store.ts";
import { DATABASE_FILE, inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { EXAMPLE, NEXT_MIGRATIONS, upgradeToNext } from "../../support/example-migration.ts";
import { queuedRun, sampleEnd, samplePayload, sampleRun } from "../../support/sample-run.ts";
import { uuidv7 } from "../../support/ids.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

async function ask({ databaseUrl, dataDir }: TestDatabase, query: string): Promise<unknown[]> {
  if (databaseUrl === null) {
    const database = new DatabaseSync(path.join(dataDir, DATABASE_FILE));
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

  verifies(
    "upgrade.additive",
    "a run that knows no batch is read, before the upgrade and beside it",
    async () => {
      const database = await databases.empty(kind);
      const [initial] = Object.entries(MIGRATIONS);
      await upgradeToNext(database, {}, Object.fromEntries([initial!]));
      const run = sampleRun();
      const later = sampleRun({ id: uuidv7(run.createdAt + 1), batchSize: 32, batchReason: "window" });
      const beside = uuidv7(run.createdAt + 2);
      const literal = (id: string): string =>
        kind === "sqlite" ? `x'${id.replaceAll("-", "")}'` : `'\\x${id.replaceAll("-", "")}'::bytea`;
      const insert = async (id: string) =>
        await ask(
          database,
          `insert into runs (app_number, id, version_id, function_name, method, is_async, state, attempt, created_at,
          updated_at, webhook_state) values (1, ${literal(id)}, ${literal(id)}, 'run', 'POST', 0, 2, 1, 1, 1, 0)`,
        );
      await insert(run.id);
      const store = await openStore(database);
      await store.runs.insertFinished([packEnded([sampleEnd(later)])]);
      await insert(beside);
      for (const id of [run.id, beside])
        expect(await store.runs.find({ appNumber: 1, id })).toMatchObject({
          id,
          batchSize: null,
          batchReason: null,
        });
      expect(await store.runs.find(later)).toEqual(later);
      await store.close();
    },
  );

  verifies("upgrade.whole", "that fails in its last step changes nothing", async () => {
    const { database } = await filled(kind);
    const migrations = {
      ...NEXT_MIGRATIONS,
      "9999-broken": () => Promise.reject(new Error("no such luck")),
    };
    await expect(upgradeToNext(database, {}, migrations)).rejects.toThrow("no such luck");
    const { objects, migrations: applied } = await inspectDatabase(database, true);
    expect(applied).not.toContain(EXAMPLE);
    expect(objects).not.toContain("column apps.example");
    await (await openStore(database)).close();
  });
});
