import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { KNOWN_MIGRATIONS } from "../../../src/store/migrate.ts";
import { SCHEMA_OBJECTS } from "../../../src/store/schema-objects.ts";
import { missingObjects } from "../../../src/store/schema-state.ts";
import { inspectDatabase } from "../../../src/store/upkeep.ts";
import { checkDatabase } from "../../../src/cli/checks.ts";
import { openStore } from "../../../src/store/store.ts";
import { packEnded } from "../../../src/store/runs.ts";
import { Bell } from "../../../src/kit/bell.ts";
import { until } from "../../support/until.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import type { TestDatabase } from "../../support/databases.ts";
import { makeOldSchema } from "../../support/old-release.ts";
import type { OldSchema } from "../../support/old-release.ts";
import { sampleEnd, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** Runs one statement behind the store's back. */
async function execute({ databaseUrl, dataDir }: TestDatabase, statement: string): Promise<void> {
  if (databaseUrl === null) {
    const database = new DatabaseSync(join(dataDir, "millrace.db"));
    database.exec(statement);
    database.close();
    return;
  }
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(statement);
  await client.end();
}

describe.each(DATABASE_KINDS)("migrations on %s", (kind) => {
  test("a database opened again keeps what it holds", async () => {
    const database = await databases.empty(kind);
    const first = await openStore(database);
    await first.meta.setIfAbsent({ key: "a", value: "b" });
    await first.close();
    const second = await openStore(database);
    expect(await second.meta.get("a")).toBe("b");
    await second.close();
  });

  test("many starters at once make one schema", async () => {
    const database = await databases.empty(kind);
    const stores = await Promise.all(Array.from({ length: 4 }, () => openStore(database)));
    for (const [i, store] of stores.entries()) {
      expect(await store.meta.setIfAbsent({ key: "first", value: `${i}` })).toBe("0");
    }
    await Promise.all(stores.map((store) => store.close()));
  });

  test("a database of a newer release is refused by name, and left as it is", async () => {
    const database = await databases.empty(kind);
    await (await openStore(database)).close();
    await execute(database, "insert into migrations (name, timestamp) values ('9999-from-the-future', '')");
    await execute(database, "insert into meta (key, value) values ('serves_from', '9999-from-the-future')");
    await expect(openStore(database)).rejects.toThrow(
      /newer release of Millrace \(it has 9999-from-the-future;/,
    );
    await execute(database, "delete from migrations where name = '9999-from-the-future'");
    await (await openStore(database)).close();
  });

  verifies(
    "upgrade.ahead",
    "a later schema that serves this release will do where others share it",
    async () => {
      const database = await databases.fresh(kind);
      await (await openStore(database)).close();
      await execute(database, "insert into migrations (name, timestamp) values ('9999-from-the-future', '')");
      const opened = async () => await openStore(database).then((store) => store.close());
      if (kind === "sqlite") return await expect(opened()).rejects.toThrow(/newer release/);
      await opened();
      const last = KNOWN_MIGRATIONS.at(-1)!;
      await execute(database, `insert into meta (key, value) values ('serves_from', '${last}')`);
      await opened();
      await execute(database, `update meta set value = '${last}-and-more' where key = 'serves_from'`);
      await expect(opened()).rejects.toThrow(/newer release/);
      // What it lacks of its own is not there to be served.
      await execute(database, "delete from meta where key = 'serves_from'");
      await execute(database, `delete from migrations where name = '${last}'`);
      await expect(opened()).rejects.toThrow(/newer release/);
    },
  );

  test("a database of the first release keeps its runs, and takes what is new", async () => {
    const database = await databases.empty(kind);
    await makeOldSchema(database, "0001-first-tables");
    const { run } = sampleEnd();
    const hex = (id: string) => id.replaceAll("-", "");
    const bytes = (id: string) => (kind === "sqlite" ? `x'${hex(id)}'` : `'\\x${hex(id)}'`);
    await execute(
      database,
      `insert into runs (app_number, id, version_id, function_name, method, is_async, state, attempt,
         created_at, updated_at, webhook_state)
       values (1, ${bytes(run.id)}, ${bytes(run.versionId)}, 'run', 'POST', 0, 2, 1, 5, 6, 0)`,
    );
    const store = await openStore(database);
    const found = await store.runs.find(run);
    expect(found).toMatchObject({ id: run.id, state: "success", createdAt: 5, interruptions: 0 });
    expect(found).not.toHaveProperty("owner");
    expect(await store.retention.usage()).toEqual({ runs: 1, bytes: 0 });
    const end = sampleEnd(undefined, { payload: samplePayload({ input: Buffer.from("12345") }) });
    await store.runs.insertFinished([packEnded([end])]);
    expect(await store.retention.usage()).toEqual({ runs: 2, bytes: 5 });
    await store.close();
  });

  verifies("upgrade.every-schema", "every earlier schema becomes this release's, and no other", async () => {
    const older = await databases.empty(kind);
    for (const name of KNOWN_MIGRATIONS) {
      await makeOldSchema(older, name as OldSchema);
      const database = await databases.copy(older);
      await (await openStore(database)).close();
      const report = await inspectDatabase(database, true);
      expect([name, report.objects.toSorted()]).toEqual([name, SCHEMA_OBJECTS.toSorted()]);
    }
  });

  verifies("upgrade.repaired", "an index that a released migration got later is made up for", async () => {
    const database = await databases.empty(kind);
    await makeOldSchema(database, "0007-builds");
    await execute(database, "drop index deliveries_by_age");
    await (await openStore(database)).close();
    expect(missingObjects(await inspectDatabase(database, true))).toEqual([]);
  });

  verifies("doctor.schema", "what the schema lacks is named", async () => {
    const database = await databases.empty(kind);
    await (await openStore(database)).close();
    await execute(database, "drop index runs_cancelled");
    const [, schema] = checkDatabase(await inspectDatabase(database, true));
    expect(schema).toMatchObject({ check: "schema", status: "fail" });
    expect(schema?.message).toContain("missing index runs_cancelled");
  });

  test("a migration that fails leaves nothing behind", async () => {
    const database = await databases.empty(kind);
    // The first migration makes this table too, after others; that it is there already makes it fail midway.
    await execute(database, "create table signing_keys (id text)");
    await expect(openStore(database)).rejects.toThrow(/signing_keys.*already exists/);
    await execute(database, "drop table signing_keys");
    await (await openStore(database)).close();
  });
});

verifies(
  "upgrade.unlimited",
  "on Postgres a migration may take as long as it takes, but waits for no table for long, and is told of first",
  async () => {
    const database = await databases.empty("postgres");
    await makeOldSchema(database, "0010-invitations");
    // What counts where the migrations run is written down with each of them.
    const limits = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
    await execute(
      database,
      `create table limits (name text, value text);
       create function note_limits() returns trigger language plpgsql as $$ begin
         insert into limits select name, setting from pg_settings where name in ('${limits.join("', '")}');
         return new;
       end $$;
       create trigger note_limits after insert on migrations for each row execute function note_limits()`,
    );
    const told: (readonly string[])[] = [];
    const onUpgrade = (names: readonly string[]) => void told.push(names);
    await (await openStore({ ...database, onUpgrade })).close();
    const since = KNOWN_MIGRATIONS.slice(KNOWN_MIGRATIONS.indexOf("0010-invitations") + 1);
    expect(told).toEqual([since]);
    const client = new Client({ connectionString: database.databaseUrl! });
    await client.connect();
    const { rows } = await client.query<{ name: string; value: string }>(
      "select distinct name, value from limits",
    );
    await client.end();
    const values = { lock_timeout: "1500", idle_in_transaction_session_timeout: "0", statement_timeout: "0" };
    expect(Object.fromEntries(rows.map(({ name, value }) => [name, value] as const))).toEqual(values);
    // Neither a database that is up to date nor a new one has anything to tell.
    await (await openStore({ ...database, onUpgrade })).close();
    await (await openStore({ ...(await databases.empty("postgres")), onUpgrade })).close();
    expect(told).toHaveLength(1);
  },
);

verifies(
  "upgrade.beside",
  "who waits for another that migrates, or for a table, says so and goes on",
  async () => {
    const database = await databases.empty("postgres");
    await makeOldSchema(database, "0013-run-traffic");
    const client = new Client({ connectionString: database.databaseUrl! });
    await client.connect();
    const bell = new Bell();
    const waits: string[] = [];
    const onUpgradeWait = (reason: string): void => {
      waits.push(reason);
      bell.ring();
    };
    await client.query("begin");
    // As whoever migrates, of this release or of an earlier one.
    await client.query("select pg_advisory_xact_lock(3853314791062309107)");
    // As a dump does, for hours.
    await client.query("lock table apps in access share mode");
    const opening = openStore({ ...database, onUpgradeWait });
    await until("it waits for the other", () => waits.includes("another"), bell);
    await client.query("commit and chain");
    await client.query("lock table apps in access share mode");
    await until("it has given the table up", () => waits.includes("tables"), bell);
    // Nobody stands behind it in the line meanwhile.
    await client.query("commit");
    await client.end();
    await (await opening).close();
  },
);
