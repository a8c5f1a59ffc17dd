import type { UsageGroup } from "../../model/usage.ts";
import { heavyRead, read, type Row, type Session, write } from "../operation.ts";
import { chunks } from "../queries.ts";
import { DAY_MS } from "./roll-up.ts";

/** Which days' usage, from the first day until before the last, of which calls. */
export type UsageQuery = {
  readonly projectId: string;
  readonly fromDay: number;
  readonly toDay: number;
  readonly groups: readonly UsageGroup[];
  /** The names of apps; empty: all, also deleted ones. */
  readonly apps: readonly string[];
  /** Null: every caller. Empty: calls without a token. Not together with tags. */
  readonly accountId: string | null;
  /** Null: whatever tags runs have. */
  readonly tag: string | null;
  /** How many groups to read at most. */
  readonly limit: number;
};

type CountedSums = Pick<
  Row<"dailyUsage">,
  | "succeeded"
  | "failed"
  | "cancelled"
  | "retried"
  | "requestBytes"
  | "responseBytes"
  | "inputTokens"
  | "outputTokens"
>;
type Sums = CountedSums & { readonly runMs: number; readonly gpuMs: number };

/** What calls used. A member by which the rows are not grouped is null. */
export type CallUsage = Sums & {
  readonly day: number | null;
  readonly app: string | null;
  /** Empty: no token. */
  readonly accountId: string | null;
  readonly tag: string | null;
};

/** What replicas used, by day and app as the calls. */
export type ReplicaUsage = Pick<CallUsage, "day" | "app"> & {
  readonly replicaMs: number;
  readonly cpuMs: number;
  readonly gpuMs: number;
  /** Gigabytes, times milliseconds. */
  readonly gbMs: number;
};

type GpuQuery = { readonly projectId: string; readonly accountId: string | null; readonly day: number };
type Expiry = { readonly now: number; readonly limit: number };

/** How long the sums of a day are kept. */
const KEPT_DAYS = 400;

const COLUMNS = { day: "u.day", app: "a.name", token: "u.accountId", tag: "u.tag" } as const;
const NAMES = { day: "day", app: "app", token: "accountId", tag: "tag" } as const;
const ABSENT = { day: null, app: null, accountId: null, tag: null };

/** What is added up of replicas. */
const REPLICA_SUMS = ["replicaMs", "cpuMs", "gpuMs", "gbMs"] as const;

/** What runs and replicas used, by day. */
export const dailyUsage = {
  /** In the order of the groups. */
  ofCalls: heavyRead(async (session, query: UsageQuery): Promise<CallUsage[]> => {
    const { sql, db } = session;
    const { accountId, tag } = query;
    const isTagged = tag !== null || query.groups.includes("tag");
    const total = (column: string) => sql`cast(sum(${sql.ref(column)}) as bigint)`;
    const sums = [
      ...(["succeeded", "failed", "cancelled", "retried", "requestBytes", "responseBytes"] as const),
      ...(["inputTokens", "outputTokens"] as const),
    ].map((name) => sql`${total(`u.${name}`)} as ${sql.ref(name)}`);
    const { rows } = await sql<Partial<CallUsage> & CountedSums & { runUs: number; gpuUs: number }>`
      select ${sql.join([...groupColumns(session, query.groups), ...sums])},
        ${total("u.runUs")} as run_us, ${total("u.gpuUs")} as gpu_us
      from apps as a cross join daily_usage as u
      where ${isMeant(session, query)} and ${isTagged ? sql`u.tag > ''` : sql`u.tag = ''`}
        ${accountId === null ? sql`` : sql`and u.account_id = ${accountId}`}
        ${tag === null ? sql`` : sql`and u.tag = ${tag}`}
      ${grouping(session, query)}
    `.execute(db);
    // Without groups there is always one row, of nulls if there is nothing to add up.
    const found = rows.filter(({ succeeded }) => (succeeded as number | null) !== null);
    return found.map(({ runUs, gpuUs, ...row }) => ({
      ...ABSENT,
      ...row,
      runMs: runUs / 1000,
      gpuMs: gpuUs / 1000,
    }));
  }),

  /** The same of replicas; grouped by day and app alone. */
  ofReplicas: heavyRead(async (session, query: UsageQuery): Promise<ReplicaUsage[]> => {
    const { sql, db } = session;
    const sums = REPLICA_SUMS.map((name) => sql`sum(${sql.ref(`u.${name}`)}) as ${sql.ref(name)}`);
    const { rows } = await sql<Partial<ReplicaUsage> & Omit<ReplicaUsage, "day" | "app">>`
      select ${sql.join([...groupColumns(session, query.groups), ...sums])}
      from apps as a cross join replica_usage as u
      where ${isMeant(session, query)}
      ${grouping(session, query)}
    `.execute(db);
    const found = rows.filter(({ replicaMs }) => (replicaMs as number | null) !== null);
    return found.map((row) => ({ day: null, app: null, ...row }));
  }),

  /** Milliseconds that the runs of a project, or of one of its accounts, had GPUs on a day. */
  gpuMs: read(async ({ sql, db }, { projectId, accountId, day }: GpuQuery): Promise<number> => {
    const { rows } = await sql<{ gpuUs: number | null }>`
      select cast(sum(u.gpu_us) as bigint) as gpu_us from apps as a cross join daily_usage as u
      where a.project_id = ${projectId} and u.app_number = a.number and u.day = ${day} and u.tag = ''
        ${accountId === null ? sql`` : sql`and u.account_id = ${accountId}`}
    `.execute(db);
    return (rows[0]?.gpuUs ?? 0) / 1000;
  }),

  /** Removes the sums of days long ago; returns how many rows. */
  expire: write(async ({ sql, db }, { now, limit }: Expiry): Promise<number> => {
    const first = Math.floor(now / DAY_MS) - KEPT_DAYS;
    const ofCalls = await sql`
      delete from daily_usage where (app_number, day, tag, account_id) in (
        select app_number, day, tag, account_id from daily_usage where day < ${first} order by day limit ${limit}
      )
    `.execute(db);
    const removed = Number(ofCalls.numAffectedRows);
    const ofReplicas = await sql`
      delete from replica_usage where (app_number, day) in (
        select app_number, day from replica_usage where day < ${first} order by day limit ${limit - removed}
      )
    `.execute(db);
    return removed + Number(ofReplicas.numAffectedRows);
  }),
};

function groupColumns({ sql }: Session, groups: readonly UsageGroup[]) {
  return groups.map((group) => sql`${sql.ref(COLUMNS[group])} as ${sql.ref(NAMES[group])}`);
}

/** Whether the row `u` is of an app `a` and a day that are asked for. */
function isMeant({ sql }: Session, { projectId, apps, fromDay, toDay }: UsageQuery) {
  const isNamed = apps.length === 0 ? sql`` : sql`and a.name in (${sql.join(apps)})`;
  return sql<boolean>`a.project_id = ${projectId} ${isNamed}
    and u.app_number = a.number and u.day >= ${fromDay} and u.day < ${toDay}`;
}

function grouping({ sql }: Session, { groups, limit }: UsageQuery) {
  if (groups.length === 0) return sql``;
  const columns = sql.join(groups.map((group) => sql.ref(COLUMNS[group])));
  return sql`group by ${columns} order by ${columns} limit ${limit}`;
}

/** What the replicas of apps used, as far as it was measured. */
export const replicaUsage = {
  /** Adds to what is stored of an app's day. */
  add: write(async ({ db }, uses: readonly Row<"replicaUsage">[]): Promise<void> => {
    // In one order: two nodes that wait for each other would both fail.
    const sorted = uses.toSorted((one, other) => one.appNumber - other.appNumber || one.day - other.day);
    for (const rows of chunks(sorted))
      await db
        .insertInto("replicaUsage")
        .values(rows)
        .onConflict((conflict) =>
          conflict
            .columns(["appNumber", "day"])
            .doUpdateSet((eb) =>
              Object.fromEntries(
                REPLICA_SUMS.map((name) => [
                  name,
                  eb(`replicaUsage.${name}`, "+", eb.ref(`excluded.${name}`)),
                ]),
              ),
            ),
        )
        .execute();
  }),
};
