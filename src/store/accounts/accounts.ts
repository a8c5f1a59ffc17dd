import { USUAL_WEIGHT } from "../../model/queue-limits.ts";
import { isNoted, noteChange } from "../nodes/changes.ts";
import { read, type Row, write } from "../operation.ts";
import { all, isDone } from "../queries.ts";
import { voidInvitations } from "./invitations.ts";

export type ServiceAccount = Row<"serviceAccounts">;

/** A token, of which only a hash of its `jti` is stored. */
type Token = Row<"tokens">;

type AccountKey = Pick<ServiceAccount, "id" | "projectId">;
type AccountUse = { readonly id: string; readonly usedAt: number };
type NewAccount = {
  readonly account: Omit<ServiceAccount, "revokedAt" | "lastUsedAt" | "weight" | "quotas"> &
    Partial<Pick<ServiceAccount, "weight" | "quotas">>;
  readonly token: Pick<Token, "jtiHash">;
};
type Rotation = AccountKey &
  Pick<Token, "jtiHash"> &
  Readonly<Record<"now" | "expiresAt" | "othersEndAt", number>>;

/** What may be changed of an account; an absent member stays as it is. */
export type AccountChange = Partial<
  Pick<ServiceAccount, "name" | "description" | "role" | "expiresAt" | "callLimits" | "weight" | "quotas">
>;
type AccountUpdate = AccountKey & Readonly<{ change: AccountChange; limitsBefore?: string | undefined }>;

/** An account, revoked or not, and its newest token. */
export type FoundAccount = {
  readonly account: ServiceAccount;
  readonly token: Pick<Token, "jtiHash" | "createdAt" | "expiresAt">;
};

/** Service accounts. */
export const accounts = {
  /** Stores an account and its first token, which lives as long as the account; both or neither. */
  insert: write(async ({ db }, { account, token: { jtiHash } }: NewAccount): Promise<void> => {
    await db.insertInto("serviceAccounts").values(account).execute();
    const { id: accountId, createdAt, expiresAt } = account;
    await db.insertInto("tokens").values({ jtiHash, accountId, createdAt, expiresAt }).execute();
  }),

  /** A project's accounts, including revoked ones, newest first. */
  list: read(async ({ db }, projectId: string): Promise<ServiceAccount[]> => {
    const ofProject = db.selectFrom("serviceAccounts").selectAll().where("projectId", "=", projectId);
    return await ofProject.orderBy("createdAt", "desc").orderBy("id", "desc").execute();
  }),

  /** The weights that are not 1, of these accounts or of all, without revoked ones. */
  weights: read(async ({ db }, ids: readonly string[] | null) => {
    const weighed = db
      .selectFrom("serviceAccounts")
      .select(["id", "projectId", "weight"])
      .where("weight", "<>", USUAL_WEIGHT)
      .where("revokedAt", "is", null);
    return await (ids ? weighed.where("id", "in", ids) : weighed).execute();
  }),

  find: read(async ({ db }, { id, projectId }: AccountKey): Promise<FoundAccount | null> => {
    const row = await db
      .selectFrom("serviceAccounts")
      .innerJoin("tokens", "tokens.accountId", "serviceAccounts.id")
      .selectAll("serviceAccounts")
      .select(["tokens.jtiHash", "tokens.createdAt as tokenCreatedAt", "tokens.expiresAt as tokenExpiresAt"])
      .where(all({ "serviceAccounts.id": id, "serviceAccounts.projectId": projectId }))
      .orderBy("tokens.createdAt", "desc")
      // Of two made in the same millisecond, the one that replaced the other.
      .orderBy("tokens.expiresAt", "desc")
      .limit(1)
      .executeTakeFirst();
    if (!row) return null;
    const { jtiHash, tokenCreatedAt: createdAt, tokenExpiresAt: expiresAt, ...account } = row;
    return { account, token: { jtiHash, createdAt, expiresAt } };
  }),

  /**
   * False if the project has no such account, if it is revoked, or if its limits are not `limitsBefore`. An expiry is
   * never postponed, and role `call` is kept, because its tokens may be public. An account with fewer rights loses its
   * invitations.
   */
  update: write(async (session, { id, projectId, change, limitsBefore }: AccountUpdate): Promise<boolean> => {
    const { expiresAt, role } = change;
    if ((role !== undefined && role !== "admin") || expiresAt !== undefined)
      await voidInvitations(session, { projectId, inviterId: id });
    const update = session.db
      .updateTable("serviceAccounts")
      // The account's own id if nothing changes: a statement has to set something.
      .set({ id, ...change })
      .where(all({ id, projectId, revokedAt: null }))
      .$if(expiresAt !== undefined, (query) => query.where("expiresAt", ">=", expiresAt ?? 0))
      .$if(limitsBefore !== undefined, (query) => query.where("callLimits", "=", limitsBefore ?? ""))
      .$if(role !== undefined && role !== "call", (query) => query.where("role", "<>", "call"));
    return await isNoted(session, update, "account", id);
  }),

  /**
   * Stores another token, and extends the account to its expiry; earlier tokens expire at `othersEndAt`. False if the
   * project has no such account, or if it is revoked.
   */
  rotate: write(async (session, input: Rotation): Promise<boolean> => {
    const { db } = session;
    const { id, projectId, jtiHash, now, expiresAt, othersEndAt } = input;
    const extension = db.updateTable("serviceAccounts").set({ expiresAt });
    if (!(await isDone(extension.where(all({ id, projectId, revokedAt: null }))))) return false;
    await db
      .updateTable("tokens")
      .set({ expiresAt: othersEndAt })
      .where("accountId", "=", id)
      .where("expiresAt", ">", othersEndAt)
      .execute();
    await db.insertInto("tokens").values({ jtiHash, accountId: id, createdAt: now, expiresAt }).execute();
    await noteChange(session, "account", id);
    return true;
  }),

  /** False if the project has no such account, or if it was revoked before. Its invitations are void. */
  revoke: write(async (session, input: AccountKey & { readonly now: number }): Promise<boolean> => {
    const { id, projectId, now } = input;
    await voidInvitations(session, { projectId, inviterId: id });
    const revocation = session.db.updateTable("serviceAccounts").set({ revokedAt: now });
    return await isNoted(session, revocation.where(all({ id, projectId, revokedAt: null })), "account", id);
  }),

  /** Records a use, unless a later one is recorded. */
  touchLastUsed: write(async ({ db }, { id, usedAt }: AccountUse): Promise<void> => {
    await db
      .updateTable("serviceAccounts")
      .set({ lastUsedAt: usedAt })
      .where("id", "=", id)
      .where((eb) => eb.or([eb("lastUsedAt", "is", null), eb("lastUsedAt", "<", usedAt)]))
      .execute();
  }),
};

/** A token with its account. The caller decides whether they are still valid. */
export type KnownToken = { readonly token: Token; readonly account: ServiceAccount };

/** Tokens, known by the hash of their `jti`. */
export const tokens = {
  findByJtiHash: read(async ({ db }, jtiHash: Uint8Array): Promise<KnownToken | null> => {
    const row = await db
      .selectFrom("tokens")
      .innerJoin("serviceAccounts", "serviceAccounts.id", "tokens.accountId")
      .selectAll("serviceAccounts")
      .select(["tokens.accountId", "tokens.createdAt as tokenCreatedAt"])
      .select(["tokens.expiresAt as tokenExpiresAt", "tokens.revokedAt as tokenRevokedAt"])
      .where("tokens.jtiHash", "=", jtiHash)
      .executeTakeFirst();
    if (!row) return null;
    const { accountId, tokenCreatedAt: createdAt, tokenExpiresAt: expiresAt, ...rest } = row;
    const { tokenRevokedAt: revokedAt, ...account } = rest;
    return { account, token: { jtiHash, accountId, createdAt, expiresAt, revokedAt } };
  }),
};
