import { expect, onTestFinished } from "vitest";
import { Client } from "pg";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { SilentProxy } from "../../support/silent-proxy.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** An address that names the hosts of all of them, in this order. */
function together(urls: readonly string[]): string {
  const hosts = urls.map((url) => new URL(url).host);
  return urls[0]!.replace(hosts[0]!, hosts.join(","));
}

verifies(
  "config.database-hosts",
  "of several hosts the one that takes writes is used, and another when that one has gone",
  async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const { databaseUrl: otherUrl } = await databases.fresh("postgres");
    const standbys = [await SilentProxy.open(otherUrl!), await SilentProxy.open(otherUrl!)];
    const first = await SilentProxy.open(databaseUrl!);
    const second = await SilentProxy.open(databaseUrl!);
    // As good as two standbys: every session is read-only.
    const name = new URL(otherUrl!).pathname.slice(1);
    const client = new Client({ connectionString: otherUrl! });
    await client.connect();
    await client.query(`alter database ${name} set default_transaction_read_only = on`);
    await client.end();
    const readOnly = together(standbys.map(({ url }) => url));
    await expect(openStore({ databaseUrl: readOnly, dataDir })).rejects.toThrow(
      /cannot use the Postgres database 127.0.0.1.*, 127.0.0.1.*: none of the 2 hosts accepts writes: .* is read-only/,
    );

    const store = await openStore({ databaseUrl: together([first.url, second.url]), dataDir });
    onTestFinished(() => store.close());
    await store.meta.setIfAbsent({ key: "a", value: "1" });
    first.reset();
    await until("it has found the other", async () => {
      try {
        await store.meta.setIfAbsent({ key: "b", value: "2" });
        return true;
      } catch (error) {
        expect((error as { code: string }).code).toMatch(/^(storage_unavailable|in_doubt)$/);
        return false;
      }
    });
    expect([await store.meta.get("a"), await store.meta.get("b")]).toEqual(["1", "2"]);
    expect(await store.takesWrites()).toBe(true);
  },
);

verifies(
  "faults.postgres",
  "sessions that stay read-only when the database is not any more are given up",
  async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const store = await openStore({ databaseUrl, dataDir });
    onTestFinished(() => store.close());
    const name = new URL(databaseUrl!).pathname.slice(1);
    const client = new Client({ connectionString: databaseUrl! });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`alter database ${name} set default_transaction_read_only = on`);
    await client.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()",
      [name],
    );
    let count = 0;
    const write = async () => await store.meta.setIfAbsent({ key: `key-${count++}`, value: "x" });
    const isTaken = async () => await write().then(Boolean, () => false);
    await until("nothing is taken", async () => !(await isTaken()) && !(await store.takesWrites()));
    await client.query(`alter database ${name} reset default_transaction_read_only`);
    await until("writes are taken", isTaken);
    // Each kind of write has sessions of its own to give up.
    await until("all are given up", async () => await store.takesWrites());
  },
);
