import * as z from "zod/mini";
import { QUOTAS } from "./usage.ts";
import { MEMBER_ROLES } from "../model/roles.ts";
import { ID, TIMESTAMP } from "./common.ts";

const MEMBER_ROLE = z.enum(MEMBER_ROLES);

export const PROJECT = z.object({ id: z.string(), name: z.string() });
export type ProjectRecord = z.infer<typeof PROJECT>;
/** The same with what it may use; null: as much as it wants. */
export const PROJECT_DETAILS = z.extend(PROJECT, { quotas: z.nullable(QUOTAS) });

export const MEMBER = z.object({
  personId: z.string(),
  /** A label until it is verified. */
  email: z.string(),
  isProven: z.boolean(),
  role: MEMBER_ROLE,
});

export const MEMBERS = z.array(z.extend(MEMBER, { createdAt: TIMESTAMP }));
export type ListedMember = z.infer<typeof MEMBERS>[number];

export const REMOVED_MEMBER = z.object({ personId: z.string() });

export const INVITATION = z.object({
  id: z.string(),
  /** The intended recipient; anyone with the link can use it. */
  email: z.string(),
  role: MEMBER_ROLE,
  /** A person or a service account. */
  invitedBy: z.string(),
  isMailed: z.boolean(),
  mailedAt: z.nullable(TIMESTAMP),
  createdAt: TIMESTAMP,
  expiresAt: TIMESTAMP,
});
export type InvitationRecord = z.infer<typeof INVITATION>;
export const INVITATIONS = z.array(INVITATION);

/** A new invitation; its link is shown here or mailed, once. */
export const MADE_INVITATION = z.extend(INVITATION, { inviteUrl: z.nullable(z.string()) });
export type MadeInvitation = z.infer<typeof MADE_INVITATION>;

/** The content of an invitation link. */
export const OFFER = z.object({
  projectId: z.string(),
  projectName: z.string(),
  role: MEMBER_ROLE,
  /** The intended recipient, as the inviter wrote it. */
  email: z.string(),
  expiresAt: TIMESTAMP,
});
export type OfferRecord = z.infer<typeof OFFER>;

export const JOINED = z.object({ projectId: z.string(), role: MEMBER_ROLE });

/** The answer to a sign-in; the refresh token is a cookie. */
export const SIGNED_IN = z.object({ personId: z.string(), accessToken: z.string(), expiresAt: TIMESTAMP });
export type SignedInRecord = z.infer<typeof SIGNED_IN>;

export const SIGNED_UP = z.extend(SIGNED_IN, { projectId: z.string() });

/** The caller and their projects. */
export const ME = z.object({
  id: z.string(),
  email: z.string(),
  /** Whether the address was verified by mail. */
  isProven: z.boolean(),
  /** Whether they are an operator of the installation. */
  isOperator: z.boolean(),
  projects: z.array(z.extend(PROJECT, { role: MEMBER_ROLE })),
});

export const MY_ADDRESS = z.object({ email: z.string() });

export const SESSIONS = z.array(
  z.extend(ID, {
    kind: z.enum(["browser", "device"]),
    isCurrent: z.boolean(),
    createdAt: TIMESTAMP,
    refreshedAt: TIMESTAMP,
    expiresAt: TIMESTAMP,
  }),
);
export type SessionRecord = z.infer<typeof SESSIONS>[number];

/** A link that sets a password, and the people with the address. */
export const PASSWORD_LINK = z.object({
  /** Null if no person, or several, have the address. */
  url: z.nullable(z.string()),
  people: z.array(
    z.object({
      personId: z.string(),
      email: z.string(),
      isProven: z.boolean(),
      createdAt: TIMESTAMP,
      projectIds: z.array(z.string()),
    }),
  ),
});

export const PROJECTS = z.array(PROJECT);

const CODES = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: z.string(),
  verification_uri_complete: z.string(),
  expires_in: z.int(),
  interval: z.int(),
});
export type DeviceCodes = z.infer<typeof CODES>;

/** The codes of a sign-in that a person approves. */
export const DEVICE_CODES = z.object({ deviceAuthResponsePayload: CODES });

/** The tokens of an approved device. */
export const DEVICE_TOKENS = z.object({ accessToken: z.string(), refreshToken: z.string() });

/** A new access token for a device's refresh token. */
export const REFRESHED_TOKEN = z.object({ access_token: z.string() });

export const TOKENS = z.union([DEVICE_TOKENS, REFRESHED_TOKEN]);

/** In OAuth's own form. */
export const TOKEN_REFUSAL = z.object({
  error: z.enum(["authorization_pending", "expired_token", "invalid_grant"]),
});
