import type { Expression, RawBuilder, SqlBool } from "kysely";
import type { Session } from "./operation.ts";

/** Who renews it, and for how long from now by the database's clock. */
export type Lease = { readonly owner: string; readonly leaseMs: number };

/** No lease is given for longer. */
const MAX_LEASE_MS = 60_000;

/** Makes the owner count as alive for so long, and returns the database's time. One lease covers all it holds. */
export async function renewLease(
  { db, sql, databaseNow }: Session,
  { owner, leaseMs }: Lease,
): Promise<number> {
  const { leaseUntil } = await db
    .insertInto("owners")
    .values({ id: owner, leaseUntil: sql<number>`${databaseNow} + ${leaseMs}` })
    .onConflict((conflict) =>
      conflict.column("id").doUpdateSet((eb) => ({ leaseUntil: eb.ref("excluded.leaseUntil") })),
    )
    .returning("leaseUntil")
    .executeTakeFirstOrThrow();
  return leaseUntil - leaseMs;
}

/** Cuts leases that end too far off: the clock was set back since, and the dead would count as alive till then. */
export async function shortenLeases({ db, sql, databaseNow }: Session): Promise<void> {
  const latest = sql<number>`${databaseNow} + ${MAX_LEASE_MS}`;
  await db.updateTable("owners").set({ leaseUntil: latest }).where("leaseUntil", ">", latest).execute();
}

/** Whether the owner in that column is alive. */
export function isAlive({ sql, databaseNow }: Session, owner: Expression<unknown>): RawBuilder<SqlBool> {
  return sql<SqlBool>`exists (
    select 1 from owners where owners.id = ${owner} and owners.lease_until > ${databaseNow}
  )`;
}

/** Whether a node is alive, and not about to leave. */
export function isStaying({ sql, databaseNow }: Session, node: Expression<unknown>): RawBuilder<SqlBool> {
  return sql<SqlBool>`exists (
    select 1 from owners
    where owners.id = ${node} and owners.lease_until > ${databaseNow} and owners.leaving_at is null
  )`;
}
