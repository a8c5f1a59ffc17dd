import { type Change as RowChange, chunks, isDone } from "../queries.ts";
import { read, type Session, write } from "../operation.ts";

/**
 * Its subject is an app's number (also for its queue), the id of an account, person, project or node, a project's id for webhook secrets,
 * `project/app number` for secrets (0 for the whole project), and empty for keys.
 */
export type Topic =
  | "account"
  | "app"
  | "keys"
  | "node"
  | "person"
  | "project"
  | "queue"
  | "secrets"
  | "webhook-secrets";

type Change = { readonly topic: Topic; readonly subject: string };

/** How far a service has read the changes. */
export type ChangePosition = {
  /** The snapshot of the transactions that were committed then, as Postgres writes it. */
  readonly snapshot: string;
  /** When the server started: another server may number its transactions differently. */
  readonly server: string;
  /** By the database's clock. */
  readonly at: number;
};

/** The changes since a position, and the next position. If not whole, anything may have changed. */
export type News = Readonly<{ position: ChangePosition; changes: readonly Change[]; isWhole: boolean }>;

/** How long changes are kept. */
const KEPT_MS = 10 * 60_000;
/** After this long a service may have missed some; a minute less, for slow transactions. */
const READABLE_MS = KEPT_MS - 60_000;
/** With more at once, it is cheaper to assume that everything has changed. */
const MAX_TOLD = 5_000;
const PRUNED_AT_ONCE = 1_000;
/** Any number that no other lock uses. */
const PRUNE_LOCK = 7_012_846_015;

type Answer = ChangePosition & { readonly changes: readonly Change[]; readonly isBack: boolean | null };

/** How services that share a database tell each other what they changed. Only for Postgres. */
export const changes = {
  /** The changes that were committed since a position, each once; with null only the present position. */
  since: read(async ({ db, sql, databaseNow }, from: ChangePosition | null): Promise<News> => {
    const before = sql`${from?.snapshot ?? null}::pg_snapshot`;
    const { rows } = await sql<Answer>`
      select pg_current_snapshot()::text as snapshot, pg_postmaster_start_time()::text as server,
        ${databaseNow} as at,
        pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(${before}) as "isBack",
        (
          select coalesce(json_agg(json_build_object('topic', topic, 'subject', subject)), '[]')
          from (
            select topic, subject from changes
            where txid >= pg_snapshot_xmin(${before}) and not pg_visible_in_snapshot(txid, ${before})
            order by number limit ${MAX_TOLD + 1}
          ) as told
        ) as changes
    `.execute(db);
    const { changes: told, isBack, ...position } = rows[0]!;
    const isSameServer = from === null || (from.server === position.server && isBack !== true);
    const isInTime = from === null || position.at - from.at <= READABLE_MS;
    return { position, changes: told, isWhole: isSameServer && isInTime && told.length <= MAX_TOLD };
  }),

  /** Removes some expired changes, unless another service is doing so; returns how many. */
  prune: write(async ({ db, sql, databaseNow }): Promise<number> => {
    const lock = await sql<{ isOurs: boolean }>`
      select pg_try_advisory_xact_lock(${sql.lit(PRUNE_LOCK)}) as "isOurs"
    `.execute(db);
    if (lock.rows[0]?.isOurs !== true) return 0;
    const { numAffectedRows } = await sql`
      delete from changes where number in (
        select number from changes where created_at < ${databaseNow} - ${sql.lit(KEPT_MS)}
        order by number limit ${PRUNED_AT_ONCE}
      )
    `.execute(db);
    return Number(numAffectedRows);
  }),
};

/** Notes in a write's own transaction what it changes of what other services cache. */
export async function noteChange(
  { db, tellOthers, databaseNow }: Session,
  topic: Topic,
  ...subjects: readonly (string | number)[]
): Promise<void> {
  if (!tellOthers) return;
  for (const some of chunks(subjects)) {
    const rows = some.map((subject) => ({ topic, subject: String(subject), createdAt: databaseNow }));
    await db.insertInto("changes").values(rows).execute();
  }
  if (subjects.length > 0) tellOthers();
}

/** Executes a change and notes it if it changed a row; returns whether it did. */
export async function isNoted(session: Session, change: RowChange, topic: Topic, subject: string | number) {
  if (!(await isDone(change))) return false;
  await noteChange(session, topic, subject);
  return true;
}
