import type { Kysely } from "kysely";
import { addColumns, type Dialect, type Tables } from "./tables.ts";

/** How many turns the calls of an account have, compared with those of others. */
export const WEIGHT_COLUMNS = {
  serviceAccounts: { weight: "smallint default 1" },
} as const satisfies Tables;

export async function accountWeight(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await addColumns(db, dialect, WEIGHT_COLUMNS);
}
