import { type CallLimits, type MemberRole, type Role, ROLES } from "../model/roles.ts";
import { AppError } from "../model/errors.ts";
import type { Fairness } from "../model/queue-limits.ts";
import type { RunCaller } from "../model/run.ts";
import type { Quotas } from "../model/usage.ts";

/** A service account: one project, one role. */
export type AccountPrincipal = {
  readonly accountId: string;
  readonly projectId: string;
  readonly role: Role;
  /** For the role `call`; otherwise null. */
  readonly limits: CallLimits | null;
  readonly quotas: Quotas | null;
  /** Of the runs that it starts. */
  readonly caller: RunCaller;
  /** In whose line its calls wait, unless they name another one: each end user has one of their own. */
  readonly fairness: Fairness;
  readonly expiresAt: number;
};

/** A person: the projects they are a member of, a role in each. */
export type PersonPrincipal = {
  readonly personId: string;
  readonly sessionId: string;
  readonly email: string;
  readonly projectId: null;
  readonly role: null;
  readonly roles: ReadonlyMap<string, Role>;
  readonly quotas: null;
  readonly caller: RunCaller;
  readonly fairness: Fairness;
  readonly expiresAt: number;
};

/** The sender of a request. */
export type Principal = AccountPrincipal | PersonPrincipal;

/** The id of the account or person. */
export function subjectOf(principal: Principal): string {
  return principal.projectId === null ? principal.personId : principal.accountId;
}

export const ROLE_OF_MEMBER: Readonly<Record<MemberRole, Role>> = { owner: "admin", member: "deploy" };

/** Throws `forbidden` unless the principal has the role in the project; an absent project looks the same. */
export function requireRole(principal: Principal, projectId: string, role: Role): void {
  const ofAccount = principal.projectId === projectId ? principal.role : null;
  const held = principal.projectId === null ? principal.roles.get(projectId) : ofAccount;
  if (!held || ROLES.indexOf(held) < ROLES.indexOf(role)) throw new AppError("forbidden");
}

/** Throws `forbidden` for a token that may only call apps, because it may be public. */
export function requireMoreThanCalls({ role }: Principal): void {
  if (role === "call") throw new AppError("forbidden");
}

/** Throws `forbidden` for a service account or without a token. */
export function requirePerson(principal: Principal | null): PersonPrincipal {
  if (principal?.projectId !== null) {
    const message = "Only a person who is signed in can do this, not a service account.";
    throw new AppError("forbidden", { message });
  }
  return principal;
}

const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/** The header of every 401. */
export const CHALLENGE = { "www-authenticate": "Bearer" };

/** The token in an Authorization header; throws `unauthorized` without one. */
export function bearerToken(authorization: string | null): string {
  const token = BEARER.exec(authorization ?? "")?.[1];
  if (token === undefined) throw new AppError("unauthorized", { headers: CHALLENGE });
  return token;
}
