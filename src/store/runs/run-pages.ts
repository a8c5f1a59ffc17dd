import { isFinal, type Run, type RunState } from "../../model/run.ts";
import type { Session } from "../operation.ts";
import { isInState, isUnfinished, listedColumns, runFromRow, STATE_CODES } from "./run-columns.ts";
import type { ListedRow } from "./run-columns.ts";
import { LAST_ID, type StoredKey } from "../queries.ts";
import { firstIdAt, uuidBytes, uuidText } from "../../kit/ids.ts";

type IndexedFilter = {
  readonly beforeId: Uint8Array;
  readonly fromId: Uint8Array | null;
  readonly asyncOnly?: boolean;
  readonly state?: RunState;
};

type Newest = IndexedFilter & { readonly projectId: string; readonly size: number };
type Head = { readonly number: number; readonly id: Uint8Array };

/**
 * The newest runs over all apps of a project, as far as an index or the key finds them. Keys are ordered only within
 * each app, so this reads the apps with the newest runs, and each only as far as necessary.
 */
async function newestRows(session: Session, query: Newest): Promise<ListedRow[]> {
  const { sql, db } = session;
  const { size } = query;
  const heads = await newestOfEachApp(session, query);
  if (heads.length === 0) return [];
  const apps = sql.join(heads.map(({ number }) => number));
  // Runs older than the newest runs of that many apps are not among the newest.
  const floor = heads.length < size ? Buffer.alloc(16) : heads.at(-1)!.id;
  const isNewer = sql`r.id >= ${floor} and ${isFound(session, query)}`;
  const { rows } = await sql<ListedRow>`
    with heads as materialized (
      select a.number, (
        select r.id from runs as r where r.app_number = a.number and ${isNewer}
        order by r.id desc limit 1 offset ${size - 1}
      ) as last_id
      from apps as a where a.number in (${apps})
    )
    select ${listedColumns(session, "r")} from heads cross join runs as r
    where r.app_number = heads.number and r.id >= coalesce(heads.last_id, ${floor}) and ${isNewer}
    order by r.id desc limit ${size}
  `.execute(db);
  return rows;
}

/** Those apps whose newest run is among the newest runs of apps. */
export async function newestOfEachApp(session: Session, query: Newest): Promise<Head[]> {
  const { sql, db } = session;
  const { rows } = await sql<Head>`
    with heads as materialized (
      select a.number, (
        select r.id from runs as r where r.app_number = a.number and ${isFound(session, query)}
        order by r.id desc limit 1
      ) as id
      from apps as a where a.project_id = ${query.projectId} and a.deleted_at is null
    )
    select number, id from heads where id is not null order by id desc limit ${query.size}
  `.execute(db);
  return rows;
}

/** Whether a run is wanted, by what is in an index. Numbers of states are literals, as in the indexes. */
export function isFound(session: Session, { beforeId, fromId, asyncOnly, state }: IndexedFilter, run = "r") {
  const { sql } = session;
  const id = sql.ref(`${run}.id`);
  const conditions = [sql`${id} < ${beforeId}`];
  if (fromId) conditions.push(sql`${id} >= ${fromId}`);
  if (asyncOnly) conditions.push(sql`${sql.ref(`${run}.is_async`)} = 1`);
  if (state !== undefined && state !== "success") {
    conditions.push(isInState(session, state, run));
    if (!isFinal(state)) conditions.push(isUnfinished(session, run));
  }
  return sql<boolean>`${sql.join(conditions, sql` and `)}`;
}

/** Selects the runs of a list. */
export type RunFilter = {
  readonly limit: number;
  readonly asyncOnly?: boolean;
  readonly syncOnly?: boolean;
  readonly state?: RunState;
  readonly functionName?: string;
  /** Which its caller gave it; only for the runs of one app. */
  readonly tag?: string;
  /** Accepted at that time or later, in epoch milliseconds. */
  readonly fromMs?: number;
  /** Accepted before that time. */
  readonly toMs?: number;
  /** Only runs older than this one: the `next` of the page before. */
  readonly before?: string;
};

/** Some runs, newest first. `next` is where the next page begins, null at the end; any page may be short. */
export type RunPage = { readonly runs: Run[]; readonly next: string | null };

/** The matching runs of a stretch, and the last id that was read; null if there are no older runs. */
type Stretch = { readonly rows: readonly ListedRow[]; readonly last: Uint8Array | null };

/**
 * How many runs to read, step by step, if no index covers the filter: most pages are full after the first step. All
 * steps take 20 ms; then the page is returned even if it is not full.
 */
const APP_STRETCHES = [500, 4_500, 15_000];
/** The same for the runs with a tag, each of which is looked up. */
const TAG_STRETCHES = [200, 400, 400];

/** A page of at most this many runs delays no other read. */
const SHORT_PAGE = 100;

/** Whether a page of an app's runs takes long to find or to send. */
export function isLongPage(filter: RunFilter): boolean {
  return filter.limit > SHORT_PAGE || isLookedThrough(filter);
}

export async function pageOfApp(session: Session, filter: RunFilter & { readonly appNumber: number }) {
  const { sql, db } = session;
  const { appNumber, tag } = filter;
  if (tag !== undefined) return await pageOfTag(session, { ...filter, tag });
  const columns = listedColumns(session, "runs");
  const indexed = (cursor: Uint8Array) =>
    sql`from runs where runs.app_number = ${appNumber}
      and ${isFound(session, { ...filter, ...boundsOf(filter, cursor) }, "runs")} order by runs.id desc`;
  if (!isLookedThrough(filter)) {
    return await pageOf(filter, [filter.limit + 1], async (cursor, size) => {
      const { rows } = await sql<ListedRow>`select ${columns} ${indexed(cursor)} limit ${size}`.execute(db);
      return { rows, last: rows.length < size ? null : rows.at(-1)!.id };
    });
  }
  const isWanted = unindexed(session, filter, "runs");
  return await pageOf(filter, APP_STRETCHES, async (cursor, size, wanted) => {
    const { rows: found } = await sql<{ id: Uint8Array }>`
      select id from (
        select runs.id, function_name, is_async, state ${indexed(cursor)} limit ${size}
      ) as runs where ${isWanted} order by id desc limit ${wanted}
    `.execute(db);
    const ids = found.map(({ id }) => id);
    const page = sql<ListedRow>`
      select ${columns} from runs where runs.app_number = ${appNumber} and runs.id in (${sql.join(ids)}) order by runs.id desc
    `;
    const rows = ids.length === 0 ? [] : (await page.execute(db)).rows;
    if (rows.length === wanted) return { rows, last: rows.at(-1)!.id };
    const end = sql<{ id: Uint8Array }>`select runs.id ${indexed(cursor)} limit 1 offset ${size - 1}`;
    return { rows, last: (await end.execute(db)).rows[0]?.id ?? null };
  });
}

/** In the order of the index of tags; everything else is looked at row by row. */
async function pageOfTag(
  session: Session,
  filter: RunFilter & { readonly appNumber: number; readonly tag: string },
) {
  const { sql, db } = session;
  const isWanted = wantedBy(filter);
  const first = Math.max(filter.limit + 1, TAG_STRETCHES[0]!);
  return await pageOf(filter, [first, ...TAG_STRETCHES.slice(1)], async (cursor, size) => {
    const { fromId, beforeId } = boundsOf(filter, cursor);
    const { rows } = await sql<ListedRow>`
      select ${listedColumns(session, "r")} from run_tags as t
      cross join runs as r
      where t.app_number = ${filter.appNumber} and t.tag = ${filter.tag} and t.id < ${beforeId}
        ${fromId ? sql`and t.id >= ${fromId}` : sql``} and r.app_number = t.app_number and r.id = t.id
      order by t.id desc limit ${size}
    `.execute(db);
    return { rows: rows.filter(isWanted), last: rows.length < size ? null : rows.at(-1)!.id };
  });
}

/** Whether a row is one of those that a filter without an index asks for. */
function wantedBy({ asyncOnly, syncOnly, state, functionName }: RunFilter): (row: ListedRow) => boolean {
  return (row) =>
    (!asyncOnly || row.isAsync === 1) &&
    (!syncOnly || row.isAsync === 0) &&
    (state === undefined || row.state === STATE_CODES[state]) &&
    (functionName === undefined || row.functionName === functionName);
}

/** A page of the runs of all apps of a project that are not deleted. */
export async function pageOfProject(session: Session, filter: RunFilter & { readonly projectId: string }) {
  return await pageOf(filter, [filter.limit + 1], async (cursor, size) => {
    const rows = await newestRows(session, { ...filter, ...boundsOf(filter, cursor), size });
    return { rows, last: rows.length < size ? null : rows.at(-1)!.id };
  });
}

/** The runs with those keys, newest first. */
export async function rowsByKey(session: Session, keys: readonly StoredKey[]): Promise<ListedRow[]> {
  const { sql, db } = session;
  if (keys.length === 0) return [];
  const apps = sql.join([...new Set(keys.map(({ appNumber }) => appNumber))]);
  const ids = sql.join(keys.map(({ id }) => id));
  const { rows } = await sql<ListedRow>`
    select ${listedColumns(session, "r")} from runs as r
    where r.app_number in (${apps}) and r.id in (${ids}) order by r.id desc
  `.execute(db);
  return rows;
}

/** Reads step by step until the page is full, there are no more runs, or enough were read. */
async function pageOf(
  filter: RunFilter,
  sizes: readonly number[],
  look: (cursor: Uint8Array, size: number, wanted: number) => Promise<Stretch>,
): Promise<RunPage> {
  const { limit } = filter;
  const rows: ListedRow[] = [];
  let cursor: Uint8Array | null = cursorOf(filter);
  for (const size of sizes) {
    const stretch: Stretch = await look(cursor, size, limit + 1 - rows.length);
    rows.push(...stretch.rows);
    cursor = stretch.last;
    if (cursor === null || rows.length > limit) break;
  }
  const isMore = rows.length > limit;
  const runs = rows.slice(0, limit).map(runFromRow);
  return { runs, next: isMore ? runs.at(-1)!.id : cursor && uuidText(cursor) };
}

/** What of a filter no index covers, of the runs under that name. */
export function unindexed({ sql }: Session, { syncOnly, state, functionName }: RunFilter, run: string) {
  const column = (name: string) => sql.ref(`${run}.${name}`);
  return sql<boolean>`true ${syncOnly ? sql`and ${column("isAsync")} = 0` : sql``}
    ${state ? sql`and ${column("state")} = ${STATE_CODES[state]}` : sql``}
    ${functionName === undefined ? sql`` : sql`and ${column("functionName")} = ${functionName}`}`;
}

/** Whether runs have to be read one by one, because no index covers the query. */
export function isLookedThrough({ syncOnly, state, functionName, tag }: RunFilter): boolean {
  return syncOnly === true || state === "success" || functionName !== undefined || tag !== undefined;
}

/** The id before which the page begins. */
export function cursorOf({ before }: RunFilter): Uint8Array {
  return before === undefined ? LAST_ID : uuidBytes(before);
}

/** The ids between which the runs are: ids begin with their time. */
export function boundsOf({ fromMs, toMs }: RunFilter, cursor: Uint8Array) {
  const end = toMs === undefined ? LAST_ID : firstIdAt(toMs);
  return {
    fromId: fromMs === undefined ? null : firstIdAt(fromMs),
    beforeId: Buffer.compare(end, cursor) < 0 ? end : cursor,
  };
}
