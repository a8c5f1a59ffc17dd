import { PENDING } from "./delivery-columns.ts";
import type { Session } from "./operation.ts";
import type { StoredKey } from "./removal.ts";
import { isOver } from "./run-states.ts";

/** Tables whose key begins with an app's number and a run's id. */
type KeyedTable = "runs" | "payloads" | "transcripts";

type Head = StoredKey & { readonly table: KeyedTable };

const LAST_ID = Buffer.alloc(16, 0xff);

/**
 * The oldest runs over all apps that have rows in one of the tables, have ended and have no open delivery. The
 * tables are in order within each app only: those apps are read whose oldest run is old enough to count, and
 * each only as far as its runs still do.
 */
export async function oldestRuns(
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
    with recursive found (app_number) as (
      select min(app_number) from ${rows}
      union all
      select (select min(t.app_number) from ${rows} as t where t.app_number > found.app_number)
      from found where found.app_number is not null
    )
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
