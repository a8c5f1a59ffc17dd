import type { Session } from "../operation.ts";
import { firstIdAt, idTime, uuidText } from "../../kit/ids.ts";
import { runFromRow } from "./run-columns.ts";
import { boundsOf, cursorOf, isFound, newestOfEachApp, rowsByKey, unindexed } from "./run-pages.ts";
import type { RunFilter, RunPage } from "./run-pages.ts";
import type { StoredKey } from "../queries.ts";

/** How many runs are looked through for one page. On SQLite that takes a processor 0.17 s over 1,000 apps. */
const MAX_SEEN = 20_000;
const ANY_NUMBER = 1_000_000_000;
const FIRST_MS = 60_000;
const GROWTH = 8;

type ProjectFilter = RunFilter & { readonly projectId: string };
/** A run that is wanted, or, without a key, how many are not. */
type Found = Partial<StoredKey> & { readonly count: number };

/**
 * A page of a project's runs that no index finds: it looks through all of them, newest first, in slices of time sized by the
 * slices before. Keys are ordered only within each app: one statement over many apps could not stop after the newest.
 */
export async function searchedPage(session: Session, filter: ProjectFilter): Promise<RunPage> {
  const { limit } = filter;
  const { fromId, beforeId } = boundsOf(filter, cursorOf(filter));
  const keys: StoredKey[] = [];
  let before: Uint8Array = beforeId;
  let left = MAX_SEEN;
  let sliceMs = FIRST_MS;
  let isEnd = false;
  while (keys.length <= limit) {
    // Each slice begins at a run: there may be none for weeks.
    const [newest] = await newestOfEachApp(session, { ...filter, fromId, beforeId: before, size: 1 });
    isEnd = newest === undefined;
    if (!newest || left <= 0) break;
    const startId = firstIdAt(idTime(newest.id) - sliceMs);
    const floor = fromId && Buffer.compare(fromId, startId) > 0 ? fromId : startId;
    // Runs of one millisecond are looked through together, however many they are.
    const most = sliceMs > 1 ? left : ANY_NUMBER;
    const found = await foundBetween(session, filter, [floor, before], most + 1);
    const seen = found.reduce((sum, { count }) => sum + count, 0);
    if (seen > most) {
      // With some of the page done, the next page goes on from here.
      if (left < MAX_SEEN) break;
      sliceMs = Math.max(1, Math.floor(sliceMs / GROWTH ** 2));
      continue;
    }
    keys.push(
      ...found
        .flatMap(({ appNumber, id }) => (appNumber && id ? { appNumber, id } : []))
        .toSorted(newestFirst),
    );
    left -= seen;
    before = floor;
    // Half of the runs that may still be seen, at this rate.
    const fittingMs = (sliceMs * left) / Math.max(1, seen) / 2;
    sliceMs = Math.max(1, Math.floor(Math.min(sliceMs * GROWTH, fittingMs)));
  }
  const shown = keys.slice(0, limit);
  const runs = (await rowsByKey(session, shown)).map(runFromRow);
  const isMore = keys.length > limit;
  const last = isMore ? shown.at(-1)!.id : before;
  return { runs, next: isEnd && !isMore ? null : uuidText(last) };
}

/** The wanted runs with ids from one to below another, and how many others there are; at most `limit` are read. */
async function foundBetween(
  session: Session,
  filter: ProjectFilter,
  [fromId, beforeId]: readonly [Uint8Array, Uint8Array],
  limit: number,
): Promise<Found[]> {
  const { sql, db } = session;
  const isWanted = unindexed(session, filter, "r");
  // `cross join`, so that SQLite goes from app to app and reads only their slices.
  const { rows } = await sql<{ appNumber: number | null; id: Uint8Array | null; count: number }>`
    select app_number, id, count(*) as count from (
      select case when ${isWanted} then r.app_number end as app_number, case when ${isWanted} then r.id end as id
      from apps as a cross join runs as r
      where a.project_id = ${filter.projectId} and a.deleted_at is null and r.app_number = a.number
        and ${isFound(session, { ...filter, fromId, beforeId }, "r")}
      limit ${limit}
    ) as seen group by 1, 2
  `.execute(db);
  return rows.map(({ appNumber, id, count }) => (appNumber && id ? { appNumber, id, count } : { count }));
}

function newestFirst(a: StoredKey, b: StoredKey): number {
  return Buffer.compare(b.id, a.id);
}
