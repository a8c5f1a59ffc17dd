import type { TestDatabase } from "./databases.ts";
import { inPostgres } from "./killable-service.ts";
import { until } from "./until.ts";

/** Waits until so many services have said that they live. */
export async function untilRenewed(database: TestDatabase, services: number): Promise<void> {
  await inPostgres(database, async (client) => {
    const leases = async () => {
      const { rows } = await client.query<{ id: string; lease_until: number }>("select * from public.owners");
      return new Map(rows.map(({ id, lease_until: leaseUntil }) => [id, leaseUntil]));
    };
    const before = await leases();
    await until("the leases are renewed", async () => {
      const renewed = [...(await leases())].filter(([id, leaseUntil]) => leaseUntil !== before.get(id));
      return renewed.length >= services;
    });
  });
}
