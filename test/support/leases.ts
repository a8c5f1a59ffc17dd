import type { Store } from "../../src/store/store.ts";
import type { TestDatabase } from "./databases.ts";
import { inPostgres } from "./killable-service.ts";
import { until } from "./until.ts";

/** Does something, and waits until so many services have said that they live since. */
export async function untilRenewed(
  database: TestDatabase,
  services: number,
  act: () => Promise<void>,
): Promise<void> {
  await inPostgres(database, async (client) => {
    const leases = async () => {
      const { rows } = await client.query<{ id: string; lease_until: number }>("select * from public.owners");
      return new Map(rows.map(({ id, lease_until: leaseUntil }) => [id, leaseUntil]));
    };
    const before = await leases();
    await act();
    await until("the leases are renewed", async () => {
      const renewed = [...(await leases())].filter(([id, leaseUntil]) => leaseUntil !== before.get(id));
      return renewed.length >= services;
    });
  });
}

/** Ends the lease of every service, as if its time had passed; where services share no database there is none. */
export async function endLeases(database: TestDatabase): Promise<void> {
  await inPostgres(database, (client) => client.query("update owners set lease_until = 0"));
}

/** Makes an owner count as alive for so long; returns the database's time. */
export async function signOfLife(
  store: Pick<Store, "nodes">,
  owner: string,
  leaseMs: number,
): Promise<number> {
  return await store.nodes.renew({ owner, leaseMs, url: null, details: null, isLeaving: false });
}
