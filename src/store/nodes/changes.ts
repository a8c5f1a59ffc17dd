import { chunks, isDone } from "../queries.ts";
import type { Change as RowChange } from "../queries.ts";
import { read, write } from "../operation.ts";
import type { Session } from "../operation.ts";

/**
 * What a change is about. The subject is an app's number, the id of an account, person, project or node, a project's id
 * for what signs its webhooks, `project/app number` for secrets (0 for the whole project), and nothing for keys.
 */
export type Topic =
  | "account"
  | "app"
  | "keys"
  | "node"
  | "person"
  | "project"
  | "secrets"
  | "webhook-secrets";

/** What was changed. */
type Change = { readonly topic: Topic; readonly subject: string };

/** How far somebody has read. */
export type ChangePosition = {
  /** Which transactions were done then, in the words of Postgres. */
  readonly snapshot: string;
  /** Since when the server runs: another one may count its transactions otherwise. */
  readonly server: string;
  /** By the database's clock. */
  readonly at: number;
};

/** What was changed since, and how far one has read then. */
export type News = {
  readonly position: ChangePosition;
  readonly changes: readonly Change[];
  /** False when more may have changed than is told: anything. */
  readonly isWhole: boolean;
};

/** How long a change can be read. */
const KEPT_MS = 10 * 60_000;
/** Who has not read for so long may have missed some: a minute less, for what was long on its way into the table. */
const READABLE_MS = KEPT_MS - 60_000;
/** Beyond so many at once it is cheaper to take everything for changed. */
const MAX_TOLD = 5_000;
const PRUNED_AT_ONCE = 1_000;
/** Any number that nothing else locks by. */
const PRUNE_LOCK = 7_012_846_015;

type Answer = ChangePosition & { readonly changes: readonly Change[]; readonly isBack: boolean | null };

/** What services that share a database tell each other. Of use on Postgres alone. */
export const changes = {
  /**
   * What was committed since that position, each change once, in whatever order transactions began and ended; with null
   * only the position of now.
   */
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

  /** Removes some of those that nobody reads any more, unless another service does so now; returns how many. */
  prune: write(async ({ db, sql, databaseNow }): Promise<number> => {
    const lock = await sql<{ isOurs: boolean }>`
      select pg_try_advisory_xact_lock(${sql.lit(PRUNE_LOCK)}) as "isOurs"
    `.execute(db);
    if (lock.rows[0]?.isOurs !== true) return 0;
    const { numDeletedRows } = await db
      .deleteFrom("changes")
      .where("number", "in", (eb) =>
        eb
          .selectFrom("changes")
          .select("number")
          .where("createdAt", "<", sql<number>`${databaseNow} - ${sql.lit(KEPT_MS)}`)
          .orderBy("number")
          .limit(PRUNED_AT_ONCE),
      )
      .executeTakeFirst();
    return Number(numDeletedRows);
  }),
};

/** Writes down in a write's own transaction what it changes of what other services remember. */
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
export async function isNoted(
  session: Session,
  change: RowChange,
  topic: Topic,
  subject: string | number,
): Promise<boolean> {
  if (!(await isDone(change))) return false;
  await noteChange(session, topic, subject);
  return true;
}
