import type { Expression, RawBuilder, SqlBool } from "kysely";
import type { Session } from "../operation.ts";
import type { NodeDetails, ServiceNode } from "../../model/node.ts";
import { noteChange } from "./changes.ts";
import { read, write } from "../operation.ts";

/** Who renews it, and for how long from now by the database's clock. */
type Lease = { readonly owner: string; readonly leaseMs: number };

/** No lease is given for longer. */
const MAX_LEASE_MS = 60_000;

/** Makes the owner count as alive for so long, and returns the database's time. One lease covers all it holds. */
async function renewLease({ db, sql, databaseNow }: Session, { owner, leaseMs }: Lease): Promise<number> {
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
async function shortenLeases({ db, sql, databaseNow }: Session): Promise<void> {
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

/** A sign of life, and what the others are to know of the node that gives it. */
export type NodeSign = Lease & {
  /** Null for a service alone. */
  readonly url: string | null;
  readonly details: NodeDetails | null;
  readonly isLeaving: boolean;
};

type NodeRow = {
  readonly id: string;
  readonly url: string | null;
  readonly details: string | null;
  readonly leavingAt: number | null;
  readonly leaseMs: number;
};

type ListedNodes = {
  readonly living: readonly ServiceNode[];
  readonly deadCount: number;
};

/** The services of an installation. */
export const nodes = {
  /** Renews a node's lease on apps, runs and deliveries for that long; returns the database's time. */
  renew: write(async (session, { owner, leaseMs, url, details, isLeaving }: NodeSign): Promise<number> => {
    await shortenLeases(session);
    const now = await renewLease(session, { owner, leaseMs });
    if (url === null) return now;
    const { numUpdatedRows } = await session.db
      .updateTable("owners")
      // An operator may have asked it to leave meanwhile: only they take that back.
      .set((eb) => ({ url, ...(isLeaving && { leavingAt: eb.fn.coalesce("leavingAt", eb.val(now)) }) }))
      .where("id", "=", owner)
      .where((eb) =>
        eb.or([eb("url", "is distinct from", url), ...(isLeaving ? [eb("leavingAt", "is", null)] : [])]),
      )
      .executeTakeFirst();
    if (numUpdatedRows === 1n) await noteChange(session, "node", owner);
    // What it does at the moment is no news to the others.
    await session.db
      .updateTable("owners")
      .set({ details: JSON.stringify(details) })
      .where("id", "=", owner)
      .execute();
    return now;
  }),

  /** Nodes whose lease stands, by id, and how many leases have expired. */
  list: read(async ({ db, databaseNow }): Promise<ListedNodes> => {
    const rows = await db
      .selectFrom("owners")
      .select((eb) => ["id", "url", "details", "leavingAt", eb("leaseUntil", "-", databaseNow).as("leaseMs")])
      .orderBy("id")
      .execute();
    const standing = rows.filter(({ leaseMs }) => leaseMs > 0);
    const living = standing.flatMap(nodeOf);
    const deadCount = rows.length - standing.length;
    return { living, deadCount };
  }),

  /** Asks a node whose lease stands to leave, or to stay after all; false when there is none of that id. */
  setLeaving: write(
    async (
      session,
      { id, isLeaving }: { readonly id: string; readonly isLeaving: boolean },
    ): Promise<boolean> => {
      const { db, databaseNow } = session;
      const { numUpdatedRows } = await db
        .updateTable("owners")
        .set((eb) => ({ leavingAt: isLeaving ? eb.fn.coalesce("leavingAt", databaseNow) : null }))
        .where("id", "=", id)
        .where("leaseUntil", ">", databaseNow)
        .where("url", "is not", null)
        .executeTakeFirstOrThrow();
      if (numUpdatedRows === 0n) return false;
      await noteChange(session, "node", id);
      return true;
    },
  ),

  /** It has let go of everything: nobody need wait until its lease has passed. */
  leave: write(async (session, id: string): Promise<void> => {
    await session.db.deleteFrom("owners").where("id", "=", id).execute();
    await noteChange(session, "node", id);
  }),
};

/** Empty for a service without nodes, and for details that no node writes. */
function nodeOf({ id, url, details: text, leavingAt, leaseMs }: NodeRow): ServiceNode[] {
  const details = url === null || text === null ? null : readDetails(text);
  return url && details ? [{ id, url, details, isLeaving: leavingAt !== null, leaseMs }] : [];
}

function readDetails(text: string): NodeDetails | null {
  try {
    const details = JSON.parse(text) as NodeDetails;
    const { name, home, release, capacity, managementAddresses, seatAddress = "" } = details;
    const texts = [name, home, release, seatAddress, ...managementAddresses];
    const isSound = texts.every((each) => typeof each === "string") && capacity.cpus > 0;
    return isSound ? details : null;
  } catch {
    return null;
  }
}
