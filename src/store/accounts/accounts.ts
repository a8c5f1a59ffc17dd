import type { Row } from "../schema/schema.ts";
import { noteChange } from "../nodes/changes.ts";
import { voidInvitations } from "./invitations.ts";
import { read, write } from "../operation.ts";

/** Who a token speaks for. */
export type ServiceAccount = Row<"serviceAccounts">;

/** What is kept of a token: a hash of its `jti`, never the token. */
type Token = Row<"tokens">;

type NewAccount = Omit<ServiceAccount, "revokedAt" | "lastUsedAt">;
type NewToken = Pick<Token, "jtiHash">;
type AccountKey = { readonly id: string; readonly projectId: string };

/** What may be changed of an account; an absent member stays as it is. */
export type AccountChange = Partial<
  Pick<ServiceAccount, "name" | "description" | "role" | "expiresAt" | "callLimits">
>;

/** An account, revoked or not, and its newest token. */
type FoundAccount = {
  readonly account: ServiceAccount;
  readonly token: Pick<Token, "jtiHash" | "createdAt" | "expiresAt">;
};

/** Service accounts. */
export const accounts = {
  /** Stores an account and its first token, which lives as long as the account; both or neither. */
  insert: write(
    async (
      { db },
      { account, token }: { readonly account: NewAccount; readonly token: NewToken },
    ): Promise<void> => {
      await db.insertInto("serviceAccounts").values(account).execute();
      const { id: accountId, createdAt, expiresAt } = account;
      await db
        .insertInto("tokens")
        .values({ jtiHash: token.jtiHash, accountId, createdAt, expiresAt })
        .execute();
    },
  ),

  /** A project's accounts, the revoked ones too, newest first. */
  list: read(
    async ({ db }, projectId: string): Promise<ServiceAccount[]> =>
      await db
        .selectFrom("serviceAccounts")
        .selectAll()
        .where("projectId", "=", projectId)
        .orderBy("createdAt", "desc")
        .orderBy("id", "desc")
        .execute(),
  ),

  find: read(async ({ db }, { id, projectId }: AccountKey): Promise<FoundAccount | null> => {
    const row = await db
      .selectFrom("serviceAccounts")
      .innerJoin("tokens", "tokens.accountId", "serviceAccounts.id")
      .selectAll("serviceAccounts")
      .select(["tokens.jtiHash", "tokens.createdAt as tokenCreatedAt", "tokens.expiresAt as tokenExpiresAt"])
      .where("serviceAccounts.id", "=", id)
      .where("serviceAccounts.projectId", "=", projectId)
      .orderBy("tokens.createdAt", "desc")
      // Of two of one moment, the one that the other was replaced by.
      .orderBy("tokens.expiresAt", "desc")
      .limit(1)
      .executeTakeFirst();
    if (!row) return null;
    const { jtiHash, tokenCreatedAt: createdAt, tokenExpiresAt: expiresAt, ...account } = row;
    return { account, token: { jtiHash, createdAt, expiresAt } };
  }),

  /**
   * False when the project has no such account, it is revoked, or its limits are not those given as before. An expiry is never put off by this, and an account
   * of role `call` keeps that role, because its tokens may be public. An account that may do less, or for less long,
   * has invited nobody.
   */
  update: write(
    async (
      session,
      {
        id,
        projectId,
        change,
        limitsBefore,
      }: AccountKey & { readonly change: AccountChange; readonly limitsBefore?: string | undefined },
    ): Promise<boolean> => {
      const { expiresAt, role } = change;
      if ((role !== undefined && role !== "admin") || expiresAt !== undefined) {
        await voidInvitations(session, { projectId, inviterId: id });
      }
      const result = await session.db
        .updateTable("serviceAccounts")
        // The account's own id where nothing changes: a statement has to set something.
        .set({ id, ...change })
        .where("id", "=", id)
        .where("projectId", "=", projectId)
        .where("revokedAt", "is", null)
        .$if(expiresAt !== undefined, (query) => query.where("expiresAt", ">=", expiresAt ?? 0))
        .$if(limitsBefore !== undefined, (query) => query.where("callLimits", "=", limitsBefore ?? ""))
        .$if(role !== undefined && role !== "call", (query) => query.where("role", "<>", "call"))
        .executeTakeFirst();
      if (result.numUpdatedRows !== 1n) return false;
      await noteChange(session, "account", id);
      return true;
    },
  ),

  /**
   * Stores a further token, with which the account lives on, and ends those before it at `othersEndAt`. False
   * when the project has no such account, or it is revoked.
   */
  rotate: write(
    async (
      session,
      input: AccountKey & NewToken & Readonly<Record<"now" | "expiresAt" | "othersEndAt", number>>,
    ): Promise<boolean> => {
      const { db } = session;
      const { id, projectId, jtiHash, now, expiresAt, othersEndAt } = input;
      const result = await db
        .updateTable("serviceAccounts")
        .set({ expiresAt })
        .where("id", "=", id)
        .where("projectId", "=", projectId)
        .where("revokedAt", "is", null)
        .executeTakeFirst();
      if (result.numUpdatedRows !== 1n) return false;
      await db
        .updateTable("tokens")
        .set({ expiresAt: othersEndAt })
        .where("accountId", "=", id)
        .where("expiresAt", ">", othersEndAt)
        .execute();
      await db.insertInto("tokens").values({ jtiHash, accountId: id, createdAt: now, expiresAt }).execute();
      await noteChange(session, "account", id);
      return true;
    },
  ),

  /** False when the project has no such account, or it is revoked already. What it has invited is void. */
  revoke: write(async (session, input: AccountKey & { readonly now: number }): Promise<boolean> => {
    await voidInvitations(session, { projectId: input.projectId, inviterId: input.id });
    const result = await session.db
      .updateTable("serviceAccounts")
      .set({ revokedAt: input.now })
      .where("id", "=", input.id)
      .where("projectId", "=", input.projectId)
      .where("revokedAt", "is", null)
      .executeTakeFirst();
    if (result.numUpdatedRows !== 1n) return false;
    await noteChange(session, "account", input.id);
    return true;
  }),

  /** Records a use; an older one never replaces a newer one. */
  touchLastUsed: write(
    async ({ db }, { id, usedAt }: { readonly id: string; readonly usedAt: number }): Promise<void> => {
      await db
        .updateTable("serviceAccounts")
        .set({ lastUsedAt: usedAt })
        .where("id", "=", id)
        .where((eb) => eb.or([eb("lastUsedAt", "is", null), eb("lastUsedAt", "<", usedAt)]))
        .execute();
    },
  ),
};

/** A token with the account it speaks for. Whether either still counts is for the caller to judge. */
export type KnownToken = { readonly token: Token; readonly account: ServiceAccount };

/** Tokens, known by the hash of their `jti`. */
export const tokens = {
  findByJtiHash: read(async ({ db }, jtiHash: Uint8Array): Promise<KnownToken | null> => {
    const row = await db
      .selectFrom("tokens")
      .innerJoin("serviceAccounts", "serviceAccounts.id", "tokens.accountId")
      .selectAll("serviceAccounts")
      .select([
        "tokens.accountId",
        "tokens.createdAt as tokenCreatedAt",
        "tokens.expiresAt as tokenExpiresAt",
        "tokens.revokedAt as tokenRevokedAt",
      ])
      .where("tokens.jtiHash", "=", jtiHash)
      .executeTakeFirst();
    if (!row) return null;
    const { accountId, tokenCreatedAt, tokenExpiresAt, tokenRevokedAt, ...account } = row;
    return {
      token: {
        jtiHash,
        accountId,
        createdAt: tokenCreatedAt,
        expiresAt: tokenExpiresAt,
        revokedAt: tokenRevokedAt,
      },
      account,
    };
  }),
};
