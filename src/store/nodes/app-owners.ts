import { all } from "../queries.ts";
import { AppError } from "../../model/errors.ts";
import type { AppPlace } from "../../model/node.ts";
import { noteChange } from "./changes.ts";
import { unfinishedApps } from "../apps/builds.ts";
import { isAlive, isDead, type Judgement } from "./nodes.ts";
import { read, type Session, write } from "../operation.ts";

/** An app that a node owns, and the fence of its ownership. */
export type OwnedApp = { readonly appNumber: number; readonly fence: number };

/** Gives a node the right to write about an app: a write with an older fence is too late. */
export type AppHolder = { readonly owner: string; readonly fence: number };

/** The name of an app. */
type NamedApp = { readonly projectId: string; readonly name: string };

type OwnerlessQuery = { readonly after: number; readonly limit: number; readonly dead: readonly string[] };
type Handover = OwnedApp & { readonly from: string; readonly to: string | null };
type TakeQuery = Judgement & { readonly appNumbers: readonly number[]; readonly owner: string };

/**
 * Which node owns which app. A node that takes an app increments its fence, and writes with an older fence change
 * nothing. Ownership lasts as long as the node's lease.
 */
export const appOwners = {
  /** The owners of the apps with those names; unknown names are left out. */
  find: read(async (session, keys: readonly NamedApp[]): Promise<(AppPlace & NamedApp)[]> => {
    if (keys.length === 0) return [];
    const named = places(session).select(["projectId", "name"]);
    const wanted = keys.map(({ projectId, name }) => all<"apps">({ projectId, name }));
    const rows = await named.where((eb) => eb.or(wanted.map((isWanted) => isWanted(eb)))).execute();
    return rows.map((row) => ({ ...row, isAlive: Boolean(row.isAlive) }));
  }),

  /** The owners of those apps, by number; deleted apps are left out. */
  list: read(async (session, appNumbers: readonly number[]): Promise<AppPlace[]> => {
    if (appNumbers.length === 0) return [];
    const rows = await places(session).where("number", "in", appNumbers).orderBy("number").execute();
    return rows.map((row) => ({ ...row, isAlive: Boolean(row.isAlive) }));
  }),

  /** The apps that a node owns, by number. */
  owned: read(async ({ db }, owner: string): Promise<OwnedApp[]> => {
    const owned = db.selectFrom("apps").where(all({ owner, deletedAt: null }));
    return await owned.select(["number as appNumber", "fence"]).orderBy("number").execute();
  }),

  /** How many apps each node owns; nodes without any are left out. */
  counts: read(async ({ sql, db }): Promise<ReadonlyMap<string, number>> => {
    const { rows } = await sql<{ owner: string; apps: number }>`
      select owner, count(*) as apps from apps where deleted_at is null and owner is not null group by owner
    `.execute(db);
    return new Map(rows.map(({ owner, apps }) => [owner, apps]));
  }),

  /** Apps that can be called or are being built and that no living node owns, by number. */
  ownerless: read(async (session, { after, limit, dead }: OwnerlessQuery): Promise<number[]> => {
    const { sql, db, databaseNow } = session;
    // Living nodes are looked up once, not for each app: with 20,000 apps that takes a quarter of the time.
    const { rows } = await sql<{ number: number }>`
      select number from apps
      where number > ${after} and deleted_at is null
        and (current_version_id is not null or number in ${unfinishedApps(session)})
        and (owner is null or owner not in (select id from owners where lease_until > ${databaseNow})
          ${dead.length > 0 ? sql`or owner in (${sql.join(dead)})` : sql``})
      order by number limit ${limit}
    `.execute(db);
    return rows.map(({ number }) => number);
  }),

  /** Gives a node with a valid lease those of the apps that no living node owns; returns them. */
  take: write(async (session, query: TakeQuery): Promise<OwnedApp[]> => {
    const { appNumbers, owner, mayJudge } = query;
    if (appNumbers.length === 0) return [];
    const rows = await session.db
      .updateTable("apps")
      .set((eb) => ({ owner, fence: eb("fence", "+", 1) }))
      .where("number", "in", appNumbers)
      .where("deletedAt", "is", null)
      .where((eb) => eb.or([eb("apps.owner", "is", null), isDead(session, "apps.owner", query)]))
      .where(isAlive(session, session.sql.val(owner)))
      .returning(["number as appNumber", "fence"])
      .execute();
    await noteChange(session, "app", ...rows.map(({ appNumber }) => appNumber));
    // A node's lease may have expired: other nodes learn it at once and forward nothing more to it.
    if (mayJudge && rows.length > 0) await noteChange(session, "node", owner);
    return rows;
  }),

  /** Hands an app to a living node that is not leaving, or to none; returns the new fence, or null if impossible. */
  handOver: write(async (session, { appNumber, fence, from, to }: Handover): Promise<number | null> => {
    const row = await session.db
      .updateTable("apps")
      .set((eb) => ({ owner: to, fence: eb("fence", "+", 1) }))
      .where(all({ number: appNumber, owner: from, fence }))
      .$if(to !== null, (query) => query.where((eb) => isAlive(session, eb.val(to), true)))
      .returning("fence")
      .executeTakeFirst();
    if (!row) return null;
    await noteChange(session, "app", appNumber);
    return row.fence;
  }),
};

/** Whether a node owns the app and its lease is valid. Until the transaction ends, no other node can take the app. */
export async function holdsApp(session: Session, appNumber: number, { owner, fence }: AppHolder) {
  const { db, sql } = session;
  const { rows } = await sql`
    select 1 from apps
    where number = ${appNumber} and owner = ${owner} and fence = ${fence} and deleted_at is null
      and ${isAlive(session, sql.val(owner))}
    ${session.shareLock}
  `.execute(db);
  return rows.length === 1;
}

/** Throws `app_moved` if the node does not own the app, `app_not_found` if it is deleted. A single service passes null. */
export async function requireApp(session: Session, appNumber: number, holder: AppHolder | null) {
  if (holder === null || (await holdsApp(session, appNumber, holder))) return;
  const isThere = await places(session).where("number", "=", appNumber).executeTakeFirst();
  if (!isThere) throw new AppError("app_not_found");
  throw new AppError("app_moved", { headers: { "retry-after": "1" } });
}

function places(session: Session) {
  const isOwnerAlive = isAlive(session, session.sql.ref("apps.owner")).as("isAlive");
  const apps = session.db.selectFrom("apps").where("deletedAt", "is", null);
  return apps.select(["number as appNumber", "owner", "fence", isOwnerAlive]);
}
