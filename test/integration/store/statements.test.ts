import { Client, DatabaseError } from "pg";
import { expect, onTestFinished } from "vitest";
import { isLostStatement, StatementNames } from "../../../src/store/postgres/dialect.ts";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "pooler.statements",
  "a statement that was prepared before a migration is prepared anew, in a read and in a write",
  async () => {
    const database = await databases.fresh("postgres");
    const store = await openStore(database);
    onTestFinished(() => store.close());
    const client = new Client({ connectionString: database.databaseUrl! });
    await client.connect();
    onTestFinished(() => client.end());
    const app = { projectId: "p", name: "a", createdAt: 1 };
    await store.projects.insert({ id: "p", name: "", createdAt: 1 });
    for (let round = 0; round < 3; round += 1) {
      // Both ask for every column: what was prepared has others than the table by then.
      const made = await store.apps.insertOrFind(app);
      expect(await store.apps.find(app)).toMatchObject({ number: made.number, name: "a" });
      await client.query(`alter table apps add column later_${round} text`);
    }
  },
);

verifies("pooler.statements", "a name stands for one text, and for none where sessions are lent", () => {
  const [names, others] = [new StatementNames(true), new StatementNames(true)];
  const [one, two] = [names.of("select 1", 0), names.of("select 2", 0)];
  expect(one).not.toBe(two);
  // Another process that prepares them the other way round.
  expect([others.of("select 2", 0), others.of("select 1", 0)]).toEqual([two, one]);
  expect([names.of("commit", 0), names.of("rollback", 0), names.of("select 1", 65)]).toEqual(
    Array.from({ length: 3 }),
  );
  expect(new StatementNames(false).of("select 1", 0)).toBeUndefined();
  const error = (code: string, message = "") =>
    Object.assign(new DatabaseError(message, 0, "error"), { code });
  const stale = error("0A000", "cached plan must not change result type");
  expect([error("0A000", "not supported"), error("23505"), new Error("26000")].some(isLostStatement)).toBe(
    false,
  );
  expect([stale, error("26000"), error("42P05")].every(isLostStatement)).toBe(true);
  names.note(stale);
  expect(names.of("select 1", 0)).not.toBe(one);
  names.note(error("26000"));
  expect(names.of("select 1", 0)).toBeUndefined();
});
