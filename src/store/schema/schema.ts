import type { Selectable } from "kysely";
import type { MemberRole, Role } from "../../model/roles.ts";
import type { INITIAL_TABLES } from "./0001-initial.ts";
import type { TypesOf } from "./tables.ts";

/**
 * The tables as the queries see them: those that the migrations declare, and of some texts which they can be. Kysely's
 * CamelCasePlugin converts the names.
 */
export type Schema = TypesOf<typeof INITIAL_TABLES> & {
  serviceAccounts: { role: Role };
  invitations: { role: MemberRole };
  memberships: { role: MemberRole };
  sessions: { kind: "browser" | "device" };
};

/** A row of a table. */
export type Row<Table extends keyof Schema> = Readonly<Selectable<Schema[Table]>>;
