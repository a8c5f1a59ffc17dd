/** What an account may do: each role includes the one before; `call` only named apps, and its own runs. */
export const ROLES = ["call", "run", "deploy", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** What a person is in a project. */
export const MEMBER_ROLES = ["owner", "member"] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

/** What an account of role `call`, and every token of its end users, is limited to. */
export type CallLimits = {
  /** The names of the apps that it may call. */
  readonly apps: readonly string[];
  /** Null: every function. A server app has no functions, so an account that names some may not call it. */
  readonly functions: readonly string[] | null;
  /** Null: pages of every origin. */
  readonly origins: readonly string[] | null;
  /** For each end user, and for the account itself. Null: no limit. */
  readonly callsPerMinute: number | null;
};
