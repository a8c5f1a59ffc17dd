import { all } from "../queries.ts";
import { AppError } from "../../model/errors.ts";
import type { AppPlace } from "../../model/node.ts";
import { noteChange } from "./changes.ts";
import { unfinishedApps } from "../apps/builds.ts";
import { isAlive, isStaying } from "./nodes.ts";
import { read, type Session, write } from "../operation.ts";

/** An app that a node owns, and the fence of its ownership. */
export type OwnedApp = { readonly appNumber: number; readonly fence: number };

/** Gives a node the right to write about an app: a write with an older fence is too late. */
export type AppHolder = { readonly owner: string; readonly fence: number };

/** The name of an app. */
type NamedApp = { readonly projectId: string; readonly name: string };

type OwnerlessQuery = { readonly after: number; readonly limit: number; readonly dead: readonly string[] };
type Handover = OwnedApp & { readonly from: string; readonly to: string | null };
type TakeQuery = {
  readonly appNumbers: readonly number[];
  readonly owner: string;
  /** Nodes that are dead, whatever their leases say. */
  readonly dead: readonly string[];
  /** Whether other nodes with an expired lease count as dead. */
  readonly mayJudge: boolean;
};

/**
 * Which node owns which app. A node that takes an app increments its fence, and later writes about the app carry the
 * fence, so a node that has lost the app changes nothing. Ownership lasts as long as the node's lease; it is not renewed
 * for each app.
 */
export const appOwners = {
  /** The owners of the apps with those names; unknown names are left out. */
  find: read(async (session, keys: readonly NamedApp[]): Promise<(AppPlace & NamedApp)[]> => {
    if (keys.length === 0) return [];
    const rows = await places(session)
      .select(["projectId", "name"])
      .where((eb) => eb.or(keys.map(({ projectId, name }) => eb.and({ projectId, name }))))
      .execute();
    return rows.map((row) => ({ ...fromRow(row), projectId: row.projectId, name: row.name }));
  }),

  /** The owners of those apps, by number; deleted apps are left out. */
  list: read(async (session, appNumbers: readonly number[]): Promise<AppPlace[]> => {
    if (appNumbers.length === 0) return [];
    const rows = await places(session).where("number", "in", appNumbers).orderBy("number").execute();
    return rows.map(fromRow);
  }),

  /** The apps that a node owns, by number. */
  owned: read(async ({ db }, owner: string): Promise<OwnedApp[]> => {
    const rows = await db
      .selectFrom("apps")
      .select(["number", "fence"])
      .where(all({ owner, deletedAt: null }))
      .orderBy("number")
      .execute();
    return rows.map(({ number, fence }) => ({ appNumber: number, fence }));
  }),

  /** How many apps each node owns; nodes without any are left out. */
  counts: read(async ({ db }): Promise<ReadonlyMap<string, number>> => {
    const rows = await db
      .selectFrom("apps")
      .select((eb) => ["owner", eb.fn.countAll<number>().as("apps")])
      .where("deletedAt", "is", null)
      .where("owner", "is not", null)
      .groupBy("owner")
      .execute();
    return new Map(rows.map(({ owner, apps }) => [owner ?? "", apps]));
  }),

  /** Apps that can be called or are being built and that no living node owns, by number. */
  ownerless: read(async (session, { after, limit, dead }: OwnerlessQuery): Promise<number[]> => {
    const { db, databaseNow } = session;
    const rows = await db
      .selectFrom("apps")
      .select("number")
      .where("number", ">", after)
      .where("deletedAt", "is", null)
      .where((eb) =>
        eb.or([eb("currentVersionId", "is not", null), eb("number", "in", unfinishedApps(session))]),
      )
      // Living nodes are looked up once, not for each app: with 20,000 apps that takes a quarter of the time.
      .where((eb) =>
        eb.or([
          eb("apps.owner", "is", null),
          eb(
            "apps.owner",
            "not in",
            eb.selectFrom("owners").select("id").where("leaseUntil", ">", databaseNow),
          ),
          ...(dead.length > 0 ? [eb("apps.owner", "in", dead)] : []),
        ]),
      )
      .orderBy("number")
      .limit(limit)
      .execute();
    return rows.map(({ number }) => number);
  }),

  /** Gives a node with a valid lease those of the apps that no living node owns; returns them. */
  take: write(async (session, { appNumbers, owner, dead, mayJudge }: TakeQuery): Promise<OwnedApp[]> => {
    if (appNumbers.length === 0) return [];
    const rows = await session.db
      .updateTable("apps")
      .set((eb) => ({ owner, fence: eb("fence", "+", 1) }))
      .where("number", "in", appNumbers)
      .where("deletedAt", "is", null)
      .where((eb) =>
        eb.or([
          eb("apps.owner", "is", null),
          ...(mayJudge ? [eb.not(isAlive(session, eb.ref("apps.owner")))] : []),
          ...(dead.length > 0 ? [eb("apps.owner", "in", dead)] : []),
        ]),
      )
      .where((eb) => isAlive(session, eb.val(owner)))
      .returning(["number", "fence"])
      .execute();
    await noteChange(session, "app", ...rows.map(({ number }) => number));
    // A node's lease may have expired: other nodes learn it at once and forward nothing more to it.
    if (mayJudge && rows.length > 0) await noteChange(session, "node", owner);
    return rows.map(({ number, fence }) => ({ appNumber: number, fence }));
  }),

  /**
   * Hands an app over to another living node that is not leaving, or with null to none; returns the new fence, null if
   * there is no such node or `from` no longer owns the app.
   */
  handOver: write(async (session, { appNumber, fence, from, to }: Handover): Promise<number | null> => {
    const row = await session.db
      .updateTable("apps")
      .set((eb) => ({ owner: to, fence: eb("fence", "+", 1) }))
      .where(all({ number: appNumber, owner: from, fence }))
      .$if(to !== null, (query) => query.where((eb) => isStaying(session, eb.val(to))))
      .returning("fence")
      .executeTakeFirst();
    if (!row) return null;
    await noteChange(session, "app", appNumber);
    return row.fence;
  }),
};

/** Whether a node owns the app and its lease is valid. Until the transaction ends, no other node can take the app. */
export async function holdsApp(
  session: Session,
  appNumber: number,
  { owner, fence }: AppHolder,
): Promise<boolean> {
  const { db, sql } = session;
  const { rows } = await sql`
    select 1 from apps
    where number = ${appNumber} and owner = ${owner} and fence = ${fence} and deleted_at is null
      and ${isAlive(session, sql.val(owner))}
    ${session.shareLock}
  `.execute(db);
  return rows.length === 1;
}

/** Throws `app_moved` if the node no longer owns the app, or `app_not_found` if the app is deleted. A single service passes null. */
export async function requireApp(
  session: Session,
  appNumber: number,
  holder: AppHolder | null,
): Promise<void> {
  if (holder === null || (await holdsApp(session, appNumber, holder))) return;
  const isThere = await places(session).where("number", "=", appNumber).executeTakeFirst();
  if (!isThere) throw new AppError("app_not_found");
  throw new AppError("app_moved", { headers: { "retry-after": "1" } });
}

function places(session: Session) {
  return session.db
    .selectFrom("apps")
    .select((eb) => ["number", "owner", "fence", isAlive(session, eb.ref("apps.owner")).as("isAlive")])
    .where("deletedAt", "is", null);
}

function fromRow(row: {
  readonly number: number;
  readonly owner: string | null;
  readonly fence: number;
  readonly isAlive: unknown;
}): AppPlace {
  return { appNumber: row.number, owner: row.owner, fence: row.fence, isAlive: Boolean(row.isAlive) };
}
