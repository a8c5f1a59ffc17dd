/** Each role includes the one before; `call` may only call named apps, and see its own runs. */
export const ROLES = ["call", "run", "deploy", "admin"] as const;
export type Role = (typeof ROLES)[number];

export const MEMBER_ROLES = ["owner", "member"] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

/** The limits of an account of role `call`, and of the tokens of its end users. */
export type CallLimits = {
  /** The names of apps. */
  readonly apps: readonly string[];
  /** Null: every function. A server app has no functions, so an account that names some may not call it. */
  readonly functions: readonly string[] | null;
  /** Null: pages of every origin. */
  readonly origins: readonly string[] | null;
  /** For each end user, and for the account itself. Null: no limit. */
  readonly callsPerMinute: number | null;
};
