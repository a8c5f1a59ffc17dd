import { AppError } from "../../model/errors.ts";
import type { AppPlace } from "../../model/node.ts";
import { noteChange } from "./changes.ts";
import { unfinishedApps } from "../apps/builds.ts";
import { isAlive, isStaying } from "./nodes.ts";
import { read, write } from "../operation.ts";
import type { Session } from "../operation.ts";

/** An app that a node has, and the number under which it has it. */
export type OwnedApp = { readonly appNumber: number; readonly fence: number };

/** By which a node may write about an app: a write that carries an older fence comes too late. */
export type AppHolder = { readonly owner: string; readonly fence: number };

/** What an app is called by. */
type NamedApp = { readonly projectId: string; readonly name: string };

type TakeQuery = {
  readonly appNumbers: readonly number[];
  readonly owner: string;
  /** Nodes that are dead, whatever their leases say. */
  readonly dead: readonly string[];
  /** Whether others are dead whose lease has passed. */
  readonly mayJudge: boolean;
};

/**
 * Which node has which app. Whoever takes an app counts its fence up, and later writes about the app carry the fence: a
 * node that has lost it changes nothing any more. An owner is one while its lease stands; nothing is renewed app by app.
 */
export const appOwners = {
  /** Where the apps of those names are; nothing of those that there are not. */
  find: read(async (session, keys: readonly NamedApp[]): Promise<(AppPlace & NamedApp)[]> => {
    if (keys.length === 0) return [];
    const rows = await places(session)
      .select(["projectId", "name"])
      .where((eb) => eb.or(keys.map(({ projectId, name }) => eb.and({ projectId, name }))))
      .execute();
    return rows.map((row) => ({ ...fromRow(row), projectId: row.projectId, name: row.name }));
  }),

  /** Where those apps are, by number; nothing of those that are deleted. */
  list: read(async (session, appNumbers: readonly number[]): Promise<AppPlace[]> => {
    if (appNumbers.length === 0) return [];
    const rows = await places(session).where("number", "in", appNumbers).orderBy("number").execute();
    return rows.map(fromRow);
  }),

  /** What a node has, by number. */
  owned: read(async ({ db }, owner: string): Promise<OwnedApp[]> => {
    const rows = await db
      .selectFrom("apps")
      .select(["number", "fence"])
      .where("owner", "=", owner)
      .where("deletedAt", "is", null)
      .orderBy("number")
      .execute();
    return rows.map(({ number, fence }) => ({ appNumber: number, fence }));
  }),

  /** How many apps each node has; nothing of those that have none. */
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

  /** Apps that can be called or are being built, and that no living node has, by number. */
  ownerless: read(
    async (
      session,
      {
        after,
        limit,
        dead,
      }: { readonly after: number; readonly limit: number; readonly dead: readonly string[] },
    ): Promise<number[]> => {
      const { db, databaseNow } = session;
      const rows = await db
        .selectFrom("apps")
        .select("number")
        .where("number", ">", after)
        .where("deletedAt", "is", null)
        .where((eb) =>
          eb.or([eb("currentVersionId", "is not", null), eb("number", "in", unfinishedApps(session))]),
        )
        // The living are looked up once, and not for each app: of 20,000 that takes a quarter of the time.
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
    },
  ),

  /** Gives a node whose lease stands those of the apps that no living node has; returns them. */
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
    // Perhaps the lease of a node has passed: others learn it at once, and pass nothing more on to it.
    if (mayJudge && rows.length > 0) await noteChange(session, "node", owner);
    return rows.map(({ number, fence }) => ({ appNumber: number, fence }));
  }),

  /**
   * Gives an app to another node that lives and stays, or with null to none; returns its new fence, null when there is
   * no such node or the app was the giver's no more.
   */
  handOver: write(
    async (
      session,
      { appNumber, fence, from, to }: OwnedApp & { readonly from: string; readonly to: string | null },
    ): Promise<number | null> => {
      const row = await session.db
        .updateTable("apps")
        .set((eb) => ({ owner: to, fence: eb("fence", "+", 1) }))
        .where("number", "=", appNumber)
        .where("owner", "=", from)
        .where("fence", "=", fence)
        .$if(to !== null, (query) => query.where((eb) => isStaying(session, eb.val(to))))
        .returning("fence")
        .executeTakeFirst();
      if (!row) return null;
      await noteChange(session, "app", appNumber);
      return row.fence;
    },
  ),
};

/** Whether a node still has the app, and its lease stands; until the transaction ends nobody else can take it. */
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

/** Throws `app_moved` for a node that has lost the app, or that it is deleted; where there is only one service it is null. */
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
