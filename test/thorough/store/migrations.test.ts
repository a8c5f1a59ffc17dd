import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { KNOWN_MIGRATIONS, SCHEMA_OBJECTS } from "../../../src/store/schema/migrate.ts";
import { inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { checkDatabase } from "../../../src/cli/operator/doctor/data-checks.ts";
import { openStore } from "../../../src/store/store.ts";
import { Condition } from "../../../src/kit/concurrency.ts";
import { until } from "../../support/until.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { EXAMPLE, upgradeToNext } from "../../support/example-migration.ts";
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
      await expect(upgradeToNext(database)).rejects.toThrow(/newer release/);
    },
  );

  verifies("doctor.schema", "what the schema lacks is named", async () => {
    const database = await databases.empty(kind);
    await (await openStore(database)).close();
    const { objects } = await inspectDatabase(database, true);
    expect(objects.toSorted()).toEqual(SCHEMA_OBJECTS.toSorted());
    await execute(database, "drop index runs_cancelled");
    const [, schema] = checkDatabase(await inspectDatabase(database, true));
    expect(schema).toMatchObject({ check: "schema", status: "fail" });
    expect(schema?.message).toContain("missing index runs_cancelled");
  });

  test("a migration that fails leaves nothing behind", async () => {
    const database = await databases.empty(kind);
    // The migration makes this table too, after others; that it is there already makes it fail midway.
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
    const database = await databases.fresh("postgres");
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
    await upgradeToNext(database, { onUpgrade });
    expect(told).toEqual([[EXAMPLE]]);
    const client = new Client({ connectionString: database.databaseUrl! });
    await client.connect();
    const { rows } = await client.query<{ name: string; value: string }>(
      "select distinct name, value from limits",
    );
    await client.end();
    const values = { lock_timeout: "1500", idle_in_transaction_session_timeout: "0", statement_timeout: "0" };
    expect(Object.fromEntries(rows.map(({ name, value }) => [name, value] as const))).toEqual(values);
    // Neither a database that is up to date nor a new one has anything to tell.
    await upgradeToNext(database, { onUpgrade });
    await upgradeToNext(await databases.empty("postgres"), { onUpgrade });
    expect(told).toHaveLength(1);
  },
);

verifies(
  "upgrade.beside",
  "who waits for another that migrates, or for a table, says so and goes on",
  async () => {
    const database = await databases.fresh("postgres");
    const client = new Client({ connectionString: database.databaseUrl! });
    await client.connect();
    const condition = new Condition();
    const waits: string[] = [];
    const onUpgradeWait = (reason: string): void => {
      waits.push(reason);
      condition.notify();
    };
    await client.query("begin");
    // As whoever migrates, of this release or of an earlier one.
    await client.query("select pg_advisory_xact_lock(3853314791062309107)");
    // As a dump does, for hours.
    await client.query("lock table apps in access share mode");
    const upgrading = upgradeToNext(database, { onUpgradeWait });
    await until("it waits for the other", () => waits.includes("another"), condition);
    await client.query("commit and chain");
    await client.query("lock table apps in access share mode");
    await until("it has given the table up", () => waits.includes("tables"), condition);
    // Nobody stands behind it in the line meanwhile.
    await client.query("commit");
    await client.end();
    await upgrading;
  },
);
