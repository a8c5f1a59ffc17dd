import type { Expression, RawBuilder, SqlBool } from "kysely";
import type { Session } from "./operation.ts";

/** Who renews it, and for how long from now by the database's clock. */
export type Lease = { readonly owner: string; readonly leaseMs: number };

/** Makes the owner count as alive for so long. One lease covers all it holds. */
export async function renewLease(
  { db, sql, databaseNow }: Session,
  { owner, leaseMs }: Lease,
): Promise<void> {
  await db
    .insertInto("owners")
    .values({ id: owner, leaseUntil: sql<number>`${databaseNow} + ${leaseMs}` })
    .onConflict((conflict) =>
      conflict.column("id").doUpdateSet((eb) => ({ leaseUntil: eb.ref("excluded.leaseUntil") })),
    )
    .execute();
}

/** Whether the owner in that column is alive. */
export function isAlive({ sql, databaseNow }: Session, owner: Expression<unknown>): RawBuilder<SqlBool> {
  return sql<SqlBool>`exists (
    select 1 from owners where owners.id = ${owner} and owners.lease_until > ${databaseNow}
  )`;
}
