import { firstIdAt } from "../../kit/ids.ts";
import { appsFound, type StoredKey } from "../queries.ts";
import { PENDING } from "./deliveries.ts";
import { read, type Session, write } from "../operation.ts";
import { isRemovable, type Kept, oldestRuns } from "./oldest-runs.ts";
import { addUsage, type KeyedTable, readUsage, removeContents } from "./removal.ts";
import { removeDeliveries, removeRecords, ROW_SIZES } from "./removal.ts";
import { isOver } from "./run-columns.ts";

/** Whether the run `r` is part of a batch that has not ended, or has ended since the cutoff. */
function isInBatch({ sql }: Pick<Session, "sql">, cutoff: number) {
  return sql<boolean>`exists (
    select 1 from batch_lines as l join line_batches as b on b.number = l.batch
    where l.run_id = r.id and (b.completed_at is null or b.completed_at >= ${cutoff})
  )`;
}

/** Data of runs that ended before the cutoff. */
type Expiry = { readonly appNumber: number; readonly cutoff: number; readonly limit: number };

type Sweep = { readonly before: number; readonly limit: number };
type OldestSweep = { readonly limit: number; readonly keep: Kept };

/** Removes expired data, a little at a time; each operation returns how much it removed. */
export const retention = {
  /** Removes inputs, results, transcripts and checkpoints of an app, and the bodies of deliveries that have ended. */
  expire: write(async (session, expiry: Expiry): Promise<number> => {
    const payloads = await expireRows(session, "payloads", expiry);
    let limit = expiry.limit - payloads.length;
    const parts = await expireRows(session, "transcripts", { ...expiry, limit });
    limit -= parts.length;
    const checkpoints = await expireRows(session, "checkpoints", { ...expiry, limit });
    limit -= checkpoints.length;
    const bodies = await expireBodies(session, { ...expiry, limit });
    const removed = [...payloads, ...parts, ...checkpoints];
    await addUsage(session, { bytes: -removed.reduce((sum, size) => sum + size, 0) });
    return removed.length + bodies;
  }),

  /** Removes runs of all apps that ended before the cutoff and have no open delivery. */
  removeRuns: write(async (session, { cutoff, limit }: Omit<Expiry, "appNumber">): Promise<number> => {
    const { sql, db } = session;
    const { rows } = await sql<StoredKey>`
      ${appsFound(session, "runs")}
      select r.app_number, r.id from found cross join runs as r
      where r.app_number = found.app_number and r.id < ${firstIdAt(cutoff)} and ${isRemovable(session)}
        and coalesce(r.completed_at, r.updated_at) < ${cutoff} and not ${isInBatch(session, cutoff)}
      limit ${limit}
    `.execute(db);
    const { runs, bytes } = await removeRecords(session, rows);
    await addUsage(session, { runs: -runs, bytes: -bytes });
    return rows.length;
  }),

  /** Removes idempotency keys that were first used before that time. */
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
    const { sql, db } = session;
    const { rows } = await sql<Pick<StoredKey, "id">>`
      select id from deliveries where state <> ${sql.lit(PENDING)} and updated_at < ${before}
      order by updated_at limit ${limit}
    `.execute(db);
    await removeDeliveries(session, rows);
    return rows.length;
  }),

  /** The apps deleted before that time of which something is still stored. */
  leftBehind: read(async ({ sql, db }, { before }: { readonly before: number }): Promise<number[]> => {
    const tables = ["log_lines", "payloads", "transcripts", "checkpoints", "builds", "versions"];
    const exists = tables.map(
      (table) => sql`exists (select 1 from ${sql.table(table)} as t where t.app_number = a.number)`,
    );
    const { rows } = await sql<{ number: number }>`
      select number from apps as a where a.deleted_at < ${before} and (${sql.join(exists, sql` or `)})
    `.execute(db);
    return rows.map(({ number }) => number);
  }),

  usage: readUsage,

  /** Removes the oldest runs over all apps that have ended and have no open delivery, or only their contents. */
  removeOldest: write(async (session, { limit, keep }: OldestSweep): Promise<number> => {
    const keys = await oldestRuns(session, keep, limit);
    const { runs, bytes } = await (keep === "record" ? removeContents : removeRecords)(session, keys);
    await addUsage(session, { runs: -runs, bytes: -bytes });
    return keys.length;
  }),
};

/** Removes rows of runs that ended before the cutoff, or that have no record; returns the bytes of each row. */
async function expireRows(
  session: Session,
  table: Exclude<KeyedTable, "runs">,
  { appNumber, cutoff, limit }: Expiry,
): Promise<number[]> {
  const { sql, db } = session;
  const key = ["id", ...(table === "transcripts" ? ["first_event"] : [])];
  const ofRow = sql.join(key.map((name) => sql.ref(`t.${name}`)));
  const { rows } = await sql<{ size: number }>`
    delete from ${sql.table(table)} where app_number = ${appNumber} and (${sql.join(key.map((name) => sql.ref(name)))}) in (
      select ${ofRow}
      from ${sql.table(table)} as t left join runs as r on r.app_number = t.app_number and r.id = t.id
      where t.app_number = ${appNumber} and t.id < ${firstIdAt(cutoff)} and (
        r.id is null or (
          ${isOver(session, "r")} and coalesce(r.completed_at, r.updated_at) < ${cutoff}
          and not ${isInBatch(session, cutoff)}
        )
      )
      order by ${ofRow} limit ${limit}
    )
    returning ${sql.raw(ROW_SIZES[table])} as size
  `.execute(db);
  return rows.map(({ size }) => size);
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
