// The tables of people, in the form that `schema.ts` describes.

import type { MemberRole } from "../../model/roles.ts";

export type PeopleTable = {
  id: string;
  /** In lower case. A label that several may have, until one of them has proven it. */
  email: string;
  /** When its holder showed that mail to it reaches them; unique among those. */
  provenAt: number | null;
  /** By address and password together a person is found; says nothing of either. */
  signInKey: Uint8Array;
  createdAt: number;
  updatedAt: number;
};

export type InvitationsTable = {
  id: string;
  projectId: string;
  role: MemberRole;
  /** A label, in lower case: whoever has the secret may accept. */
  email: string;
  secretHash: Uint8Array;
  /** A person or a service account. */
  inviterId: string;
  /** Its secret was given to the mail alone, never to the inviter. */
  isMailed: number;
  /** When the mail server took it. */
  mailedAt: number | null;
  createdAt: number;
  expiresAt: number;
  usedAt: number | null;
  usedBy: string | null;
};

export type MembershipsTable = {
  personId: string;
  projectId: string;
  role: MemberRole;
  createdAt: number;
};

export type SessionsTable = {
  id: string;
  personId: string;
  kind: "browser" | "device";
  /** Of the part of a refresh token that stays, and of the part that changes with each use. */
  familyHash: Uint8Array;
  secretHash: Uint8Array;
  previousHash: Uint8Array | null;
  createdAt: number;
  refreshedAt: number;
  expiresAt: number;
};

export type DeviceCodesTable = {
  deviceHash: Uint8Array;
  userHash: Uint8Array;
  /** Who approved it. */
  personId: string | null;
  createdAt: number;
  expiresAt: number;
};
