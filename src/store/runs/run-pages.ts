import { isFinal, type Run, type RunState } from "../../model/run.ts";
import type { Session } from "../operation.ts";
import { isInState, isUnfinished, listedColumns, type ListedRow } from "./run-columns.ts";
import { listedText, runFromRow, STATE_CODES } from "./run-columns.ts";
import { LAST_ID } from "../queries.ts";
import type { SelectQueryBuilder } from "kysely";
import { firstIdAt, uuidBytes, uuidText } from "../../kit/ids.ts";
import type { Schema } from "../schema/schema.ts";

type Newest = {
  readonly projectId: string;
  readonly size: number;
  readonly beforeId: Uint8Array;
  readonly fromId: Uint8Array | null;
  readonly asyncOnly?: boolean;
  readonly state?: RunState;
};

type Head = { readonly number: number; readonly id: Uint8Array };

/**
 * The newest runs over all apps of a project, as far as an index or the key finds them. The table is in order within
 * each app only: those apps are read that have the newest runs, and each as far as its runs can be among the newest.
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
    select ${listedText(session)} from heads cross join runs as r
    where r.app_number = heads.number and r.id >= coalesce(heads.last_id, ${floor}) and ${isNewer}
    order by r.id desc limit ${size}
  `.execute(db);
  return rows;
}

/** Those apps whose newest run is among the newest runs of apps. */
async function newestOfEachApp(session: Session, query: Newest): Promise<Head[]> {
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

/** Whether the run `r` is wanted, by what is in an index. Numbers of states are written out, as an index has them. */
function isFound(session: Session, { beforeId, fromId, asyncOnly, state }: Newest) {
  const { sql } = session;
  const conditions = [sql`r.id < ${beforeId}`];
  if (fromId) conditions.push(sql`r.id >= ${fromId}`);
  if (asyncOnly) conditions.push(sql`r.is_async = 1`);
  if (state !== undefined && state !== "success") {
    conditions.push(isInState(session, state, "r"));
    if (!isFinal(state)) conditions.push(isUnfinished(session, "r"));
  }
  return sql<boolean>`${sql.join(conditions, sql` and `)}`;
}

/** Which runs a list is of. */
export type RunFilter = {
  readonly limit: number;
  readonly asyncOnly?: boolean;
  readonly syncOnly?: boolean;
  readonly state?: RunState;
  readonly functionName?: string;
  /** Accepted at that time or later, in epoch milliseconds. */
  readonly fromMs?: number;
  /** Accepted before that time. */
  readonly toMs?: number;
  /** Only runs older than this one: the `next` of the page before. */
  readonly before?: string;
};

/** Some runs, newest first. `next` is where the next page begins, null at the end; any page may be short. */
export type RunPage = { readonly runs: Run[]; readonly next: string | null };

/** Runs that were read: those that match, and the last id; null if there are no older runs. */
type Stretch = { readonly rows: readonly ListedRow[]; readonly last: Uint8Array | null };

/**
 * How many runs are read, step by step, if no index covers the filter: most pages are full after the first step. All steps
 * take 20 ms; after that, the page is returned even if it is not full.
 */
const APP_STRETCHES = [500, 4_500, 15_000];
/** The same for all apps of a project, whose runs have to be merged. */
const PROJECT_STRETCHES = [200, 400, 400];

/** So many runs are sent at once without delaying others. */
const SHORT_PAGE = 100;

/** Whether a page of an app's runs takes long to find or to send. */
export function isLongPage(filter: RunFilter): boolean {
  return filter.limit > SHORT_PAGE || isLookedThrough(filter);
}

/** A page of an app's runs. */
export async function pageOfApp(
  session: Session,
  filter: RunFilter & { readonly appNumber: number },
): Promise<RunPage> {
  const { db } = session;
  const from = (cursor: Uint8Array) => indexed(session, filter, cursor);
  if (!isLookedThrough(filter)) {
    return await pageOf(filter, [filter.limit + 1], async (cursor, size) => {
      const rows = await from(cursor)
        .select(listedColumns(session))
        .orderBy("id", "desc")
        .limit(size)
        .execute();
      return { rows, last: rows.length < size ? null : rows.at(-1)!.id };
    });
  }
  return await pageOf(filter, APP_STRETCHES, async (cursor, size, wanted) => {
    const stretch = from(cursor)
      .select(["id", "functionName", "isAsync", "state"])
      .orderBy("id", "desc")
      .limit(size);
    const ids = await looked(db.selectFrom(stretch.as("runs")), filter)
      .select("id")
      .orderBy("id", "desc")
      .limit(wanted)
      .execute();
    const rows = await rowsOf(session, filter.appNumber, ids);
    if (rows.length === wanted) return { rows, last: rows.at(-1)!.id };
    const end = await from(cursor)
      .select("id")
      .orderBy("id", "desc")
      .offset(size - 1)
      .limit(1)
      .executeTakeFirst();
    return { rows, last: end?.id ?? null };
  });
}

/** A page of the runs of all apps of a project that are not deleted. */
export async function pageOfProject(
  session: Session,
  filter: RunFilter & { readonly projectId: string },
): Promise<RunPage> {
  const { syncOnly, state, functionName } = filter;
  const isWanted = (row: ListedRow): boolean =>
    (!syncOnly || row.isAsync === 0) &&
    (state === undefined || row.state === STATE_CODES[state]) &&
    (functionName === undefined || row.functionName === functionName);
  const stretches = isLookedThrough(filter) ? PROJECT_STRETCHES : [filter.limit + 1];
  const first = Math.max(filter.limit + 1, stretches[0]!);
  return await pageOf(filter, [first, ...stretches.slice(1)], async (cursor, size) => {
    const seen = await newestRows(session, { ...filter, ...boundsOf(filter, cursor), size });
    return { rows: seen.filter(isWanted), last: seen.length < size ? null : seen.at(-1)!.id };
  });
}

/** Reads step by step until the page is full, there are no more runs, or enough were read. */
async function pageOf(
  { limit, before }: RunFilter,
  sizes: readonly number[],
  look: (cursor: Uint8Array, size: number, wanted: number) => Promise<Stretch>,
): Promise<RunPage> {
  const rows: ListedRow[] = [];
  let cursor: Uint8Array | null = before === undefined ? LAST_ID : uuidBytes(before);
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

/** Whether runs have to be read one by one, because no index covers the query. */
function isLookedThrough({ syncOnly, state, functionName }: RunFilter): boolean {
  return syncOnly === true || state === "success" || functionName !== undefined;
}

/** An app's runs older than that, as far as an index or the key finds them. */
function indexed(session: Session, filter: RunFilter & { readonly appNumber: number }, cursor: Uint8Array) {
  const { appNumber, asyncOnly, state } = filter;
  const { fromId, beforeId } = boundsOf(filter, cursor);
  let query = session.db.selectFrom("runs").where("appNumber", "=", appNumber).where("id", "<", beforeId);
  if (fromId) query = query.where("id", ">=", fromId);
  // Literals, not parameters: SQLite takes a partial index only if the query repeats its condition.
  if (asyncOnly) query = query.where("isAsync", "=", (eb) => eb.lit(1));
  if (state === undefined || state === "success") return query;
  query = query.where(isInState(session, state));
  return isFinal(state) ? query : query.where(isUnfinished(session));
}

function looked<Output>(query: SelectQueryBuilder<Schema, "runs", Output>, filter: RunFilter) {
  const { syncOnly, state, functionName } = filter;
  let wanted = query;
  if (syncOnly) wanted = wanted.where("isAsync", "=", 0);
  if (state) wanted = wanted.where("state", "=", STATE_CODES[state]);
  if (functionName !== undefined) wanted = wanted.where("functionName", "=", functionName);
  return wanted;
}

async function rowsOf(session: Session, appNumber: number, found: readonly { id: Uint8Array }[]) {
  if (found.length === 0) return [];
  const ids = found.map(({ id }) => id);
  return await session.db
    .selectFrom("runs")
    .select(listedColumns(session))
    .where("appNumber", "=", appNumber)
    .where("id", "in", ids)
    .orderBy("id", "desc")
    .execute();
}

/** The ids between which the runs are: ids begin with their time. */
function boundsOf({ fromMs, toMs }: RunFilter, cursor: Uint8Array) {
  const end = toMs === undefined ? LAST_ID : firstIdAt(toMs);
  return {
    fromId: fromMs === undefined ? null : firstIdAt(fromMs),
    beforeId: Buffer.compare(end, cursor) < 0 ? end : cursor,
  };
}
