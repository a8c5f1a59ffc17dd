/**
 * What an account may do, each role all of the one before it; `call` only for apps that the account names, and for its
 * own runs.
 */
export const ROLES = ["call", "run", "deploy", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** What a person is in a project. */
export const MEMBER_ROLES = ["owner", "member"] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];
