import type { Generated } from "kysely";

/**
 * The tables as the queries see them. Names are camelCase here and snake_case in the database; Kysely's
 * CamelCasePlugin is the one place that converts. Times are epoch milliseconds, booleans 0 or 1, UUIDs their
 * 16 bytes (in a run's row 28 bytes of 186 are saved by that), states their place in the model's list.
 */
export type Schema = {
  projects: ProjectsTable;
  apps: AppsTable;
  versions: VersionsTable;
  runs: RunsTable;
  serviceAccounts: ServiceAccountsTable;
  tokens: TokensTable;
  signingKeys: SigningKeysTable;
  meta: MetaTable;
};

export type ProjectsTable = {
  id: string;
  name: string;
  createdAt: number;
};

export type AppsTable = {
  number: Generated<number>;
  projectId: string;
  name: string;
  currentVersionId: Uint8Array | null;
  createdAt: number;
  updatedAt: number;
  deletedAt: number | null;
};

export type VersionsTable = {
  id: Uint8Array;
  appNumber: number;
  number: number;
  /** An `AppConfig` as JSON. */
  config: string;
  bundleDir: string;
  /** A list of `FunctionSignature` as JSON. */
  functions: string | null;
  createdAt: number;
};

export type RunsTable = {
  appNumber: number;
  id: Uint8Array;
  versionId: Uint8Array;
  functionName: string;
  method: string;
  isAsync: number;
  state: number;
  statusCode: number | null;
  attempt: number;
  createdAt: number;
  startedAt: number | null;
  completedAt: number | null;
  updatedAt: number;
  replicaId: string | null;
  replicaStartedAt: number | null;
  ip: string | null;
  webhookEndpoint: string | null;
  webhookState: number;
  errorCode: string | null;
  errorMessage: string | null;
  errorTraceback: string | null;
  queueMs: number | null;
  runMs: number | null;
  responseMs: number | null;
};

export type ServiceAccountsTable = {
  id: string;
  /** Null for a person, whose rights come from membership. */
  projectId: string | null;
  name: string;
  description: string | null;
  role: "run" | "deploy" | "admin";
  createdAt: number;
  expiresAt: number;
  revokedAt: number | null;
  lastUsedAt: number | null;
};

export type TokensTable = {
  jtiHash: Uint8Array;
  accountId: string;
  createdAt: number;
  expiresAt: number;
  revokedAt: number | null;
};

export type SigningKeysTable = {
  id: string;
  sealedPrivate: Uint8Array;
  publicJwk: string;
  createdAt: number;
  retiredAt: number | null;
};

export type MetaTable = {
  key: string;
  value: string;
};
