import type { ServiceAccount, Token } from "./accounts.ts";
import { read } from "./operation.ts";

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
