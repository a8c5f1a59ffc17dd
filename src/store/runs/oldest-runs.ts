import type { Session } from "../operation.ts";
import { all, appsFound, LAST_ID, type StoredKey } from "../queries.ts";
import { PENDING } from "./deliveries.ts";
import type { KeyedTable } from "./removal.ts";
import { isOver } from "./run-columns.ts";

/** What is removed because of a cap: whole records, or only what is stored beside them. */
export type Kept = "record" | "nothing";

type Head = StoredKey & { readonly table: KeyedTable };

/** An app with open batches of lines: none of their runs has an id below the floor. */
type BatchApp = {
  readonly appNumber: number;
  /** The batch whose row remembers how far the app has been looked through. */
  readonly number: number;
  readonly floor: Uint8Array;
  readonly sweptTo: Uint8Array | null;
};

/** Runs of an app that are looked through for those that are no batch's: of each page, and at a time, about 20 ms. */
const PAGE = 500;
const MOST_PAGES = 10;

/**
 * The oldest runs over all apps of which there is something to remove, which have ended, have no open delivery, and are
 * not part of an open batch. Keys are ordered only within each app, so this reads the apps with old enough runs, and each
 * only as far as necessary.
 */
export async function oldestRuns(session: Session, keep: Kept, limit: number): Promise<StoredKey[]> {
  const tables = keep === "record" ? (["payloads", "transcripts"] as const) : (["runs"] as const);
  const batchApps = await appsWithBatches(session);
  const floors = new Map(batchApps.map(({ appNumber, floor }) => [appNumber, floor]));
  const heads: Head[] = [];
  for (const table of tables) heads.push(...(await oldestOfEachApp(session, table)));
  let oldest: StoredKey[] = [];
  let last: Uint8Array = LAST_ID;
  for (const { table, appNumber, id } of heads.toSorted(byAge)) {
    if (Buffer.compare(id, last) > 0) break;
    const ids = await oldestOfApp(session, { table, appNumber, last, floor: floors.get(appNumber), limit });
    const merged = [...oldest, ...ids.map((found) => ({ appNumber, id: found }))].toSorted(byAge);
    // A run may be in two of the tables.
    const distinct = merged.filter((key, i) => i === 0 || byAge(key, merged[i - 1]!) !== 0);
    oldest = distinct.slice(0, limit);
    if (oldest.length === limit) last = oldest.at(-1)!.id;
  }
  for (const app of batchApps) oldest = await withLaterRuns(session, oldest, app, keep, limit);
  return oldest;
}

function byAge(a: StoredKey, b: StoredKey): number {
  return Buffer.compare(a.id, b.id);
}

async function oldestOfEachApp(session: Session, table: KeyedTable): Promise<Head[]> {
  const { sql, db } = session;
  const rows = sql.table(table);
  const { rows: found } = await sql<{ appNumber: number; id: Uint8Array | null }>`
    ${appsFound(session, table)}
    select found.app_number, (
      select t.id from ${rows} as t cross join runs as r
      where t.app_number = found.app_number and r.app_number = t.app_number and r.id = t.id
        and ${isRemovable(session)} and ${isBelowBatches(session)}
      order by t.id limit 1
    ) as id
    from found where found.app_number is not null
  `.execute(db);
  return found.flatMap(({ appNumber, id }) => (id === null ? [] : { table, appNumber, id }));
}

async function oldestOfApp(
  session: Session,
  query: {
    table: KeyedTable;
    appNumber: number;
    last: Uint8Array;
    floor: Uint8Array | undefined;
    limit: number;
  },
): Promise<Uint8Array[]> {
  const { sql, db } = session;
  const { last, floor } = query;
  const isOld = floor && Buffer.compare(floor, last) <= 0 ? sql`t.id < ${floor}` : sql`t.id <= ${last}`;
  const { rows } = await sql<{ id: Uint8Array }>`
    select distinct t.id from ${sql.table(query.table)} as t cross join runs as r
    where t.app_number = ${query.appNumber} and ${isOld} and r.app_number = t.app_number and r.id = t.id
      and ${isRemovable(session)}
    order by t.id limit ${query.limit}
  `.execute(db);
  return rows.map(({ id }) => id);
}

/** Of each app with open batches, the one with the lowest floor. */
async function appsWithBatches({ db }: Session): Promise<BatchApp[]> {
  const rows = await db
    .selectFrom("lineBatches")
    .select(["appNumber", "number", "floor", "sweptTo"])
    .where("completedAt", "is", null)
    .orderBy("floor")
    .execute();
  return [...Map.groupBy(rows, ({ appNumber }) => appNumber).values()].map(([first]) => first!);
}

/**
 * Adds runs that came after the beginning of an open batch and are no batch's. A batch may have a million runs among which
 * they have to be found, so each time only some are looked at, and the next time those after them; behind the last one it
 * begins again, because others have ended meanwhile.
 */
async function withLaterRuns(
  session: Session,
  oldest: readonly StoredKey[],
  { appNumber, number, floor, sweptTo }: BatchApp,
  keep: Kept,
  limit: number,
): Promise<StoredKey[]> {
  const { db } = session;
  const free: StoredKey[] = [];
  let next: Uint8Array | null = sweptTo ?? floor;
  for (let pages = 0; next && pages < MOST_PAGES && free.length < limit; pages++) {
    const rows: PageRow[] = await pageOfLater(session, { appNumber, from: next, isAfter: pages > 0, keep });
    free.push(...rows.flatMap(({ id, isFree }) => (isFree === 1 ? { appNumber, id } : [])));
    next = rows.length < PAGE ? null : rows.at(-1)!.id;
  }
  const merged = [...oldest, ...free].toSorted(byAge).slice(0, limit);
  const taken = new Set(merged);
  const left = free.find((key) => !taken.has(key));
  await db
    .updateTable("lineBatches")
    .set({ sweptTo: left?.id ?? next })
    .where(all({ number }))
    .execute();
  return merged;
}

type PageRow = { readonly id: Uint8Array; readonly isFree: number };
type PageQuery = {
  readonly appNumber: number;
  readonly from: Uint8Array;
  /** Without the first one. */
  readonly isAfter: boolean;
  readonly keep: Kept;
};

async function pageOfLater(session: Session, query: PageQuery): Promise<PageRow[]> {
  const { sql, db } = session;
  const { appNumber, from, isAfter, keep } = query;
  const isIn = isAfter ? sql`r.id > ${from}` : sql`r.id >= ${from}`;
  const isStored =
    keep === "nothing"
      ? sql`1 = 1`
      : sql`(exists (select 1 from payloads as p where p.app_number = r.app_number and p.id = r.id)
          or exists (select 1 from transcripts as t where t.app_number = r.app_number and t.id = r.id))`;
  const { rows } = await sql<PageRow>`
    select r.id, case when ${isRemovable(session)} and ${isStored} and not ${isInOpenBatch(session)}
      then 1 else 0 end as is_free
    from runs as r where r.app_number = ${appNumber} and ${isIn} order by r.id limit ${PAGE}
  `.execute(db);
  return rows;
}

function isBelowBatches({ sql }: Session) {
  return sql<boolean>`t.id < coalesce((
    select b.floor from line_batches as b
    where b.app_number = found.app_number and b.completed_at is null order by b.floor limit 1
  ), ${LAST_ID})`;
}

/** Whether the run `r` has ended and has no open delivery. */
export function isRemovable(session: Session) {
  const { sql } = session;
  return sql<boolean>`${isOver(session, "r")}
    and not exists (select 1 from deliveries as d where d.id = r.id and d.state = ${sql.lit(PENDING)})`;
}

function isInOpenBatch({ sql }: Session) {
  return sql<boolean>`exists (
    select 1 from batch_lines as l join line_batches as b on b.number = l.batch
    where l.run_id = r.id and b.completed_at is null
  )`;
}
