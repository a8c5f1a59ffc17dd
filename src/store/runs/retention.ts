import { firstIdAt } from "../../kit/ids.ts";
import { appsFound } from "../queries.ts";
import { PENDING } from "./deliveries.ts";
import type { Session } from "../operation.ts";
import type { StoredKey } from "./removal.ts";
import { isOver } from "./run-columns.ts";
import { read, write } from "../operation.ts";
import { PAYLOAD_SIZE } from "./payloads.ts";
import { addUsage, readUsage, removeContents, removeDeliveries, removeRecords } from "./removal.ts";

/** Tables whose key begins with an app's number and a run's id. */
type KeyedTable = "runs" | "payloads" | "transcripts";

type Head = StoredKey & { readonly table: KeyedTable };

const LAST_ID = Buffer.alloc(16, 0xff);

/**
 * The oldest runs over all apps that have rows in one of the tables, have ended and have no open delivery. The
 * tables are in order within each app only: those apps are read whose oldest run is old enough to count, and
 * each only as far as its runs still do.
 */
async function oldestRuns(
  session: Session,
  tables: readonly KeyedTable[],
  limit: number,
): Promise<StoredKey[]> {
  const heads: Head[] = [];
  for (const table of tables) heads.push(...(await oldestOfEachApp(session, table)));
  let oldest: StoredKey[] = [];
  let last: Uint8Array = LAST_ID;
  for (const { table, appNumber, id } of heads.toSorted(byAge)) {
    if (Buffer.compare(id, last) > 0) break;
    const ids = await oldestOfApp(session, { table, appNumber, last, limit });
    const merged = [...oldest, ...ids.map((found) => ({ appNumber, id: found }))].toSorted(byAge);
    // A run may be in two of the tables.
    const distinct = merged.filter((key, i) => i === 0 || byAge(key, merged[i - 1]!) !== 0);
    oldest = distinct.slice(0, limit);
    if (oldest.length === limit) last = oldest.at(-1)!.id;
  }
  return oldest;
}

function byAge(a: StoredKey, b: StoredKey): number {
  return Buffer.compare(a.id, b.id);
}

/** Each app's oldest such run; the apps are found by going from key to key, not by reading every row. */
async function oldestOfEachApp(session: Session, table: KeyedTable): Promise<Head[]> {
  const { sql, db } = session;
  const rows = sql.table(table);
  const { rows: found } = await sql<{ appNumber: number; id: Uint8Array | null }>`
    ${appsFound(session, table)}
    select found.app_number, (
      select t.id from ${rows} as t cross join runs as r
      where t.app_number = found.app_number and ${isRemovable(session)}
      order by t.id limit 1
    ) as id
    from found where found.app_number is not null
  `.execute(db);
  return found.flatMap(({ appNumber, id }) => (id === null ? [] : { table, appNumber, id }));
}

async function oldestOfApp(
  session: Session,
  query: { table: KeyedTable; appNumber: number; last: Uint8Array; limit: number },
): Promise<Uint8Array[]> {
  const { sql, db } = session;
  const { rows } = await sql<{ id: Uint8Array }>`
    select distinct t.id from ${sql.table(query.table)} as t cross join runs as r
    where t.app_number = ${query.appNumber} and t.id <= ${query.last} and ${isRemovable(session)}
    order by t.id limit ${query.limit}
  `.execute(db);
  return rows.map(({ id }) => id);
}

/** Whether the row `t` belongs to a run `r` that has ended and has no open delivery. */
function isRemovable(session: Session) {
  const { sql } = session;
  return sql<boolean>`r.app_number = t.app_number and r.id = t.id and ${isOver(session, "r")}
    and not exists (select 1 from deliveries as d where d.id = r.id and d.state = ${sql.lit(PENDING)})`;
}

type Expiry = {
  readonly appNumber: number;
  /** What ended before this time is not kept any longer. */
  readonly cutoff: number;
  readonly limit: number;
};

/** A row that was removed, and the bytes it held. */
type Removed = { readonly size: number };

type Sweep = { readonly before: number; readonly limit: number };

/** Removes expired data, a little at a time; each operation returns how much it has removed. */
export const retention = {
  /** Removes inputs, results and transcripts of an app, and the bodies of deliveries that have ended. */
  expire: write(async (session, expiry: Expiry): Promise<number> => {
    const payloads = await expirePayloads(session, expiry);
    let limit = expiry.limit - payloads.length;
    const parts = await expireTranscripts(session, { ...expiry, limit });
    limit -= parts.length;
    const bodies = await expireBodies(session, { ...expiry, limit });
    const bytes = [...payloads, ...parts].reduce((sum, { size }) => sum + size, 0);
    await addUsage(session, { runs: 0, bytes: -bytes });
    return payloads.length + parts.length + bodies;
  }),

  /** Removes runs of all apps that were made before the cutoff, have ended, and have no open delivery. */
  removeRuns: write(
    async (
      session,
      { cutoff, limit }: { readonly cutoff: number; readonly limit: number },
    ): Promise<number> => {
      const { sql, db } = session;
      const { rows } = await sql<StoredKey>`
        ${appsFound(session, "runs")}
        select r.app_number, r.id from found cross join runs as r
        where r.app_number = found.app_number and r.id < ${firstIdAt(cutoff)} and ${isOver(session, "r")}
          and not exists (select 1 from deliveries as d where d.id = r.id and d.state = ${sql.lit(PENDING)})
        limit ${limit}
      `.execute(db);
      const { runs, bytes } = await removeRecords(session, rows);
      await addUsage(session, { runs: -runs, bytes: -bytes });
      return rows.length;
    },
  ),

  /** Removes idempotency keys that were used first before that time. */
  removeKeys: write(async ({ sql, db }, { before, limit }: Sweep): Promise<number> => {
    const { numAffectedRows } = await sql`
      delete from idempotency_keys where (app_number, key_hash) in (
        select app_number, key_hash from idempotency_keys
        where created_at < ${before} order by created_at limit ${limit}
      )
    `.execute(db);
    return Number(numAffectedRows);
  }),

  /** Removes deliveries that ended before that time. */
  removeDeliveries: write(async (session, { before, limit }: Sweep): Promise<number> => {
    const rows = await session.db
      .selectFrom("deliveries")
      .select("id")
      .where("state", "<>", (eb) => eb.lit(PENDING))
      .where("updatedAt", "<", before)
      .orderBy("updatedAt")
      .limit(limit)
      .execute();
    await removeDeliveries(
      session,
      rows.map(({ id }) => id),
    );
    return rows.length;
  }),

  /** The apps deleted before that time that something is still stored of. */
  leftBehind: read(async ({ sql, db }, { before }: { readonly before: number }): Promise<number[]> => {
    const { rows } = await sql<{ number: number }>`
      select number from apps as a where a.deleted_at < ${before} and (
        exists (select 1 from log_lines as t where t.app_number = a.number)
        or exists (select 1 from payloads as t where t.app_number = a.number)
        or exists (select 1 from transcripts as t where t.app_number = a.number)
        or exists (select 1 from builds as t where t.app_number = a.number)
        or exists (select 1 from versions as t where t.app_number = a.number)
      )
    `.execute(db);
    return rows.map(({ number }) => number);
  }),

  /** How much is stored; it costs the same however much that is. */
  usage: readUsage,

  /** Removes the oldest runs over all apps that have ended and have no open delivery, or what is kept of them. */
  removeOldest: write(
    async (
      session,
      { limit, keep }: { readonly limit: number; readonly keep: "record" | "nothing" },
    ): Promise<number> => {
      const tables = keep === "record" ? (["payloads", "transcripts"] as const) : (["runs"] as const);
      const keys = await oldestRuns(session, tables, limit);
      const { runs, bytes } = await (keep === "record" ? removeContents : removeRecords)(session, keys);
      await addUsage(session, { runs: -runs, bytes: -bytes });
      return keys.length;
    },
  ),
};

async function expirePayloads(session: Session, { appNumber, cutoff, limit }: Expiry): Promise<Removed[]> {
  const { sql, db } = session;
  const { rows } = await sql<Removed>`
    delete from payloads where app_number = ${appNumber} and id in (
      select t.id from payloads as t left join runs as r on r.app_number = t.app_number and r.id = t.id
      where t.app_number = ${appNumber} and t.id < ${firstIdAt(cutoff)} and ${hasEnded(session, cutoff)}
      order by t.id limit ${limit}
    )
    returning ${sql.raw(PAYLOAD_SIZE)} as size
  `.execute(db);
  return rows;
}

async function expireTranscripts(session: Session, { appNumber, cutoff, limit }: Expiry): Promise<Removed[]> {
  const { sql, db } = session;
  const { rows } = await sql<Removed>`
    delete from transcripts where app_number = ${appNumber} and (id, first_event) in (
      select t.id, t.first_event
      from transcripts as t left join runs as r on r.app_number = t.app_number and r.id = t.id
      where t.app_number = ${appNumber} and t.id < ${firstIdAt(cutoff)} and ${hasEnded(session, cutoff)}
      order by t.id, t.first_event limit ${limit}
    )
    returning length(bytes) as size
  `.execute(db);
  return rows;
}

async function expireBodies({ sql, db }: Session, { appNumber, cutoff, limit }: Expiry): Promise<number> {
  const { numAffectedRows } = await sql`
    update deliveries set body = null, body_blob = null, body_bytes = null where id in (
      select id from deliveries
      where app_number = ${appNumber} and id < ${firstIdAt(cutoff)} and state <> ${sql.lit(PENDING)} and body is not null
        and updated_at < ${cutoff}
      order by id limit ${limit}
    )
  `.execute(db);
  return Number(numAffectedRows);
}

/** Whether the run `r` ended before that time; one without a record did so long ago, or was never stored. */
function hasEnded(session: Session, cutoff: number) {
  return session.sql<boolean>`(
    r.id is null or (${isOver(session, "r")} and coalesce(r.completed_at, r.updated_at) < ${cutoff})
  )`;
}
