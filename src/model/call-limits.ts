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
