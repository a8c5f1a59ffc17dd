import type { Kysely } from "kysely";
import type { ColumnTypes } from "./column-types.ts";
import { takeAnyRole } from "./take-any-role.ts";

/** Accounts of role `call` with what they are limited to, and who asked for each run: an account, and its end user. */
export async function callAccounts(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  await takeAnyRole(db, types);
  await db.schema.alterTable("service_accounts").addColumn("call_limits", "text").execute();
  for (const name of ["account_id", "caller_user"])
    await db.schema.alterTable("runs").addColumn(name, "text").execute();
}
