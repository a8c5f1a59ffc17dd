import * as z from "zod/mini";
import { ROLES } from "../model/roles.ts";
import { pagesOf, TIMESTAMP } from "./common.ts";
import { QUOTAS } from "./usage.ts";

/** The limits of an account of role `call`; absent for other roles. */
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

export const LISTED_ACCOUNT = z.extend(ACCOUNT, {
  /** How many turns its waiting calls have for each turn of an account of weight 1. */
  weight: z.int(),
  /** Null: it may use as much as it wants. */
  quotas: z.nullable(QUOTAS),
  lastUsedAt: z.nullable(TIMESTAMP),
  revokedAt: z.nullable(TIMESTAMP),
});
export type ListedAccount = z.infer<typeof LISTED_ACCOUNT>;
export const ACCOUNTS = z.array(LISTED_ACCOUNT);

/** The only answer that shows the account's token. */
export const ACCOUNT_WITH_TOKEN = z.extend(ACCOUNT, { token: z.string() });
export type AccountWithToken = z.infer<typeof ACCOUNT_WITH_TOKEN>;

/** A token for an end user; it is shown only once. */
export const USER_TOKEN = z.object({ token: z.string(), expiresAt: TIMESTAMP });

export const SECRET_NAME = /^[A-Za-z0-9_.-]{1,253}$/;
const MAX_VALUE_CHARS = 64 * 1024;

/** The secrets of a project or an app: a map that is replaced as a whole. */
export const SECRET_MAP = z.record(
  z.string().check(z.regex(SECRET_NAME)),
  z.string().check(
    z.maxLength(MAX_VALUE_CHARS),
    z.refine((value) => !value.includes("\0"), "holds a NUL character"),
  ),
);

const FILE_ENTRY = z.object({
  name: z.string(),
  is_folder: z.boolean(),
  size_bytes: z.int(),
  last_modified: TIMESTAMP,
});
export type FileEntry = z.infer<typeof FILE_ENTRY>;

/** The entries of a folder of the persistent storage. */
export const FILES = z.array(FILE_ENTRY);

/** An upload that has begun, with a URL for each part. */
export const BEGUN_UPLOAD = z.object({
  upload_id: z.string(),
  parts: z.array(z.object({ part_number: z.int(), url: z.url() })),
});

export const STORED_PART = z.object({ etag: z.string() });
export const COMPLETED_FILE = z.object({ file_path: z.string(), size_bytes: z.nullable(z.int()) });
/** A URL that works for a while. */
export const OFFERED_FILE = z.object({ url: z.url() });
export const REMOVED_FILE = z.object({ file_path: z.string() });

const AUDIT_ENTRY = z.object({
  id: z.string(),
  createdAt: TIMESTAMP,
  /** The id of a service account or a person. */
  actor: z.nullable(z.string()),
  action: z.string(),
  target: z.string(),
  before: z.unknown(),
  after: z.unknown(),
  ip: z.string(),
  requestId: z.string(),
});
export type AuditEntry = z.infer<typeof AUDIT_ENTRY>;

/** A page of the changes in a project. */
export const AUDIT = pagesOf(AUDIT_ENTRY);
