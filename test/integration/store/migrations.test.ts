import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { openStore } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import type { TestDatabase } from "../../support/databases.ts";

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
    const database = await databases.fresh(kind);
    const first = await openStore(database);
    await first.meta.setIfAbsent({ key: "a", value: "b" });
    await first.close();
    const second = await openStore(database);
    expect(await second.meta.get("a")).toBe("b");
    await second.close();
  });

  test("many starters at once make one schema", async () => {
    const database = await databases.fresh(kind);
    const stores = await Promise.all(Array.from({ length: 4 }, () => openStore(database)));
    for (const [i, store] of stores.entries()) {
      expect(await store.meta.setIfAbsent({ key: "first", value: `${i}` })).toBe("0");
    }
    await Promise.all(stores.map((store) => store.close()));
  });

  test("a database of a newer release is refused by name, and left as it is", async () => {
    const database = await databases.fresh(kind);
    await (await openStore(database)).close();
    await execute(database, "insert into migrations (name, timestamp) values ('9999-from-the-future', '')");
    await expect(openStore(database)).rejects.toThrow(
      /newer release of Millrace \(it has 9999-from-the-future;/,
    );
    await execute(database, "delete from migrations where name = '9999-from-the-future'");
    await (await openStore(database)).close();
  });

  test("a migration that fails leaves nothing behind", async () => {
    const database = await databases.fresh(kind);
    // The first migration makes this table too, after others; that it is there already makes it fail midway.
    await execute(database, "create table signing_keys (id text)");
    await expect(openStore(database)).rejects.toThrow(/signing_keys.*already exists/);
    await execute(database, "drop table signing_keys");
    await (await openStore(database)).close();
  });
});
