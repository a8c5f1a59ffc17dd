import { isFinal } from "../model/run.ts";
import type { RunState } from "../model/run.ts";
import type { Session } from "./operation.ts";
import { listedText } from "./run-columns.ts";
import type { ListedRow } from "./run-columns.ts";
import { isInState, isUnfinished } from "./run-states.ts";

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
export async function newestRows(session: Session, query: Newest): Promise<ListedRow[]> {
  const { sql, db } = session;
  const { size } = query;
  const heads = await newestOfEachApp(session, query);
  if (heads.length === 0) return [];
  const apps = sql.join(heads.map(({ number }) => number));
  // Whatever is older than that many newest runs of apps is not among the newest.
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
