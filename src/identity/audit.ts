import type { Principal } from "./principal.ts";

/** One change, as it is kept: who, what, from where. Never a secret, in no member. */
export type AuditEntry = {
  readonly projectId: string | null;
  /** A noun and what happened to it: `service_account.created`. */
  readonly action: string;
  /** The id of what was changed. */
  readonly target: string;
  readonly before: unknown;
  readonly after: unknown;
  /** Null where nobody had signed in yet. */
  readonly principal: Principal | null;
  readonly ip: string;
  readonly requestId: string;
};

/** Takes down every change. */
export type Audit = { record(entry: AuditEntry): Promise<void> };
