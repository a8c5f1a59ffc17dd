import { expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { EXAMPLE, upgradeToNext } from "../support/example-migration.ts";
import { inPostgres } from "../support/killable-service.ts";
import { testService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

verifies("upgrade.release-before", "serves on, and its runs end, while the schema changes", async () => {
  const database = await databases.fresh("postgres");
  const main = "def run(n):\n    return n + 1\n";
  const test = await testService({ app: { main } }, { databaseUrl: database.databaseUrl! });
  const { baseUrl, owner } = test.service;
  const headers = { authorization: `Bearer ${owner.token}` };
  const look = async (): Promise<number> =>
    (await fetch(`${baseUrl}/v2/projects/${owner.projectId}/apps`, { headers })).status;
  const everything = async (n: number): Promise<void> => {
    expect(await test.call("app", { n })).toMatchObject({ status: 200, json: { result: n + 1 } });
    expect(await look()).toBe(200);
    const accepted = await test.call("app", { n }, { suffix: "?async=true" });
    expect(accepted.status).toBe(202);
    const id = String(accepted.json["run_id"]);
    await until("its run ends", async () => {
      const found = await fetch(`${test.service.apiUrl}/v4/${owner.projectId}/app/runs/${id}`, { headers });
      return ((await found.json()) as { status: string }).status === "success";
    });
  };
  // Every connection has prepared what it asks for.
  for (let n = 0; n < 5; n += 1) await everything(n);
  await upgradeToNext(database);
  await inPostgres(database, async (client) => {
    const { rows } = await client.query<{ name: string }>("select name from migrations order by name");
    expect(rows.at(-1)).toEqual({ name: EXAMPLE });
  });
  // A session that was ended may be found out by the next request: that is a 503, and never anything else.
  const statuses: number[] = [];
  await until("its sessions are new", async () => {
    statuses.push(await look());
    return statuses.at(-1) === 200;
  });
  expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
  for (let n = 5; n < 15; n += 1) await everything(n);
});
