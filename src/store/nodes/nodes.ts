import type { Expression, RawBuilder, SqlBool } from "kysely";
import { z } from "zod";
import { read, type Row, type Session, write } from "../operation.ts";
import { MAX_PUBLISHED_GPUS, type NodeDetails, type ServiceNode } from "../../model/node.ts";
import { isNoted, noteChange } from "./changes.ts";

/** The owner of a lease, and how long it lasts from now by the database's clock. */
type Lease = { readonly owner: string; readonly leaseMs: number };

/** The longest lease. */
const MAX_LEASE_MS = 60_000;

/** Renews the owner's lease, which covers everything it holds; returns the database's time. */
async function renewLease({ db, sql, databaseNow }: Session, { owner, leaseMs }: Lease): Promise<number> {
  const { rows } = await sql<{ leaseUntil: number }>`
    insert into owners (id, lease_until) values (${owner}, ${databaseNow} + ${leaseMs})
    on conflict (id) do update set lease_until = excluded.lease_until returning lease_until
  `.execute(db);
  return rows[0]!.leaseUntil - leaseMs;
}

/** Shortens leases that end too late: after the clock was set back, dead owners would count as alive until then. */
async function shortenLeases({ db, sql, databaseNow }: Session): Promise<void> {
  const latest = sql<number>`${databaseNow} + ${MAX_LEASE_MS}`;
  await db.updateTable("owners").set({ leaseUntil: latest }).where("leaseUntil", ">", latest).execute();
}

/** Whether that owner is alive, and with `isStaying` not leaving. */
export function isAlive({ sql, databaseNow }: Session, owner: Expression<unknown>, isStaying = false) {
  return sql<SqlBool>`exists (
    select 1 from owners where owners.id = ${owner} and owners.lease_until > ${databaseNow}
      ${isStaying ? sql`and owners.leaving_at is null` : sql``}
  )`;
}

/** Which nodes are dead: those named, and with `mayJudge` also others with an expired lease. */
export type Judgement = {
  readonly dead: readonly string[];
  readonly mayJudge: boolean;
  /** The database's time as the judge reckons it: leases that only a set clock has expired are none of the dead. */
  readonly reckonedNow?: number;
};

/** Whether no valid lease of that owner is found, by the database's clock and by what the judge reckons. */
export function isExpired({ sql, databaseNow }: Session, owner: Expression<unknown>, reckonedNow?: number) {
  const orReckoned = reckonedNow === undefined ? sql`` : sql`or held.lease_until > ${reckonedNow}`;
  return sql<SqlBool>`not exists (
    select 1 from owners as held where held.id = ${owner} and (held.lease_until > ${databaseNow} ${orReckoned})
  )`;
}

/** Whether the owner in that column is dead. */
export function isDead(
  session: Session,
  owner: string,
  { dead, mayJudge, reckonedNow }: Judgement,
): RawBuilder<SqlBool> {
  const { sql } = session;
  const isNamed = dead.length > 0 ? sql`${sql.ref(owner)} in (${sql.join(dead)})` : sql`1 = 0`;
  const hasPassed = mayJudge ? isExpired(session, sql.ref(owner), reckonedNow) : sql`1 = 0`;
  return sql<SqlBool>`(${isNamed} or ${hasPassed})`;
}

/** A heartbeat, with what other nodes need to know about the node. */
export type Heartbeat = Lease & {
  /** Null for a single service. */
  readonly url: string | null;
  readonly details: NodeDetails | null;
  readonly isLeaving: boolean;
};

type NodeRow = Omit<Row<"owners">, "leaseUntil"> & { readonly leaseMs: number };
type NodeChoice = { readonly id: string; readonly isLeaving: boolean };
type ListedNodes = { readonly living: readonly ServiceNode[]; readonly deadCount: number };

/** The services of an installation. */
export const nodes = {
  /** Renews a node's lease on apps, runs and deliveries for that long; returns the database's time. */
  renew: write(async (session, { owner, leaseMs, url, details, isLeaving }: Heartbeat): Promise<number> => {
    await shortenLeases(session);
    const now = await renewLease(session, { owner, leaseMs });
    if (url === null) return now;
    const update = session.db
      .updateTable("owners")
      // An operator may have asked it to leave in the meantime, and only an operator may revoke that.
      .set((eb) => ({ url, ...(isLeaving && { leavingAt: eb.fn.coalesce("leavingAt", eb.val(now)) }) }))
      .where("id", "=", owner)
      .where((eb) =>
        eb.or([eb("url", "is distinct from", url), ...(isLeaving ? [eb("leavingAt", "is", null)] : [])]),
      );
    await isNoted(session, update, "node", owner);
    // Other nodes need no notice of its current load.
    const load = { details: JSON.stringify(details) };
    await session.db.updateTable("owners").set(load).where("id", "=", owner).execute();
    return now;
  }),

  /** Nodes with a valid lease, by id, and how many leases have expired. */
  list: read(async ({ db, databaseNow }): Promise<ListedNodes> => {
    const rows = await db
      .selectFrom("owners")
      .select((eb) => ["id", "url", "details", "leavingAt", eb("leaseUntil", "-", databaseNow).as("leaseMs")])
      .orderBy("id")
      .execute();
    const valid = rows.filter(({ leaseMs }) => leaseMs > 0);
    return { living: valid.flatMap(nodeOf), deadCount: rows.length - valid.length };
  }),

  /** Asks a living node to leave, or to stay after all; false if there is no such node. */
  setLeaving: write(async (session, { id, isLeaving }: NodeChoice): Promise<boolean> => {
    const { db, databaseNow } = session;
    const update = db
      .updateTable("owners")
      .set((eb) => ({ leavingAt: isLeaving ? eb.fn.coalesce("leavingAt", databaseNow) : null }))
      .where("id", "=", id)
      .where("leaseUntil", ">", databaseNow)
      .where("url", "is not", null);
    return await isNoted(session, update, "node", id);
  }),

  /** Ends the lease of a node that has released everything, so that no one waits for it to expire. */
  leave: write(async (session, id: string): Promise<void> => {
    await session.db.deleteFrom("owners").where("id", "=", id).execute();
    await noteChange(session, "node", id);
  }),
};

/** Empty for a single service, and for malformed details. */
function nodeOf({ id, url, details: text, leavingAt, leaseMs }: NodeRow): ServiceNode[] {
  const details = url === null || text === null ? null : readDetails(text);
  return url && details ? [{ id, url, details, isLeaving: leavingAt !== null, leaseMs }] : [];
}

const GPUS = z
  .array(z.object({ model: z.string().max(200), memoryBytes: z.number().nonnegative() }))
  .max(MAX_PUBLISHED_GPUS)
  .optional()
  .catch(undefined);

function readDetails(text: string): NodeDetails | null {
  try {
    const details = JSON.parse(text) as NodeDetails;
    const { name, home, release, capacity, managementAddresses, seatAddress = "" } = details;
    const texts = [name, home, release, seatAddress, ...managementAddresses];
    const isSound = texts.every((each) => typeof each === "string") && capacity.cpus > 0;
    const { gpus: told, ...sound } = details;
    const gpus = GPUS.parse(told);
    return isSound ? { ...sound, ...(gpus && { gpus }) } : null;
  } catch {
    return null;
  }
}
