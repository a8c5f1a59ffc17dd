import * as z from "zod/mini";
import { ROLES } from "../model/roles.ts";
import { TIMESTAMP } from "./common.ts";

/** What an account of role `call` is limited to; absent of every other role. */
const LIMITS = {
  apps: z.optional(z.array(z.string())),
  functions: z.optional(z.nullable(z.array(z.string()))),
  origins: z.optional(z.nullable(z.array(z.string()))),
  callsPerMinute: z.optional(z.nullable(z.int())),
};

const ACCOUNT = z.object({
  id: z.string(),
  name: z.string(),
  description: z.nullable(z.string()),
  role: z.enum(ROLES),
  projectId: z.string(),
  createdAt: TIMESTAMP,
  expiresAt: TIMESTAMP,
  ...LIMITS,
});
export type AccountRecord = z.infer<typeof ACCOUNT>;

/** A service account as lists show it. */
export const LISTED_ACCOUNT = z.extend(ACCOUNT, {
  lastUsedAt: z.nullable(TIMESTAMP),
  revokedAt: z.nullable(TIMESTAMP),
});
export type ListedAccount = z.infer<typeof LISTED_ACCOUNT>;

/** A project's service accounts. */
export const ACCOUNTS = z.array(LISTED_ACCOUNT);

/** A service account and its token, the one time that it is shown. */
export const ACCOUNT_WITH_TOKEN = z.extend(ACCOUNT, { token: z.string() });
export type AccountWithToken = z.infer<typeof ACCOUNT_WITH_TOKEN>;

/** A token for an end user, the one time that it is shown. */
export const USER_TOKEN = z.object({ token: z.string(), expiresAt: TIMESTAMP });
