import type { ServiceAccountsTable, TokensTable } from "./schema.ts";
import { read, write } from "./operation.ts";

/** Who a token speaks for. */
export type ServiceAccount = Readonly<ServiceAccountsTable>;

/** What is kept of a token: a hash of its `jti`, never the token. */
export type Token = Readonly<TokensTable>;

type NewAccount = Omit<ServiceAccount, "revokedAt" | "lastUsedAt">;
type NewToken = Pick<Token, "jtiHash">;

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

  /** False when the project has no such account, or it is revoked already. */
  revoke: write(
    async (
      { db },
      input: { readonly id: string; readonly projectId: string; readonly now: number },
    ): Promise<boolean> => {
      const result = await db
        .updateTable("serviceAccounts")
        .set({ revokedAt: input.now })
        .where("id", "=", input.id)
        .where("projectId", "=", input.projectId)
        .where("revokedAt", "is", null)
        .executeTakeFirst();
      return result.numUpdatedRows === 1n;
    },
  ),

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
