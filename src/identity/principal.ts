import { AppError } from "../model/errors.ts";

/** What an account may do, each role all of the one before it. */
export const ROLES = ["run", "deploy", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** Who makes a request. */
export type Principal = {
  readonly accountId: string;
  readonly projectId: string;
  readonly role: Role;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
};

/** Throws `forbidden` unless the principal has the role in the project; an absent project looks the same. */
export function requireRole(principal: Principal, projectId: string, role: Role): void {
  if (principal.projectId !== projectId || ROLES.indexOf(principal.role) < ROLES.indexOf(role)) {
    throw new AppError("forbidden");
  }
}
