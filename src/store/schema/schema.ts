import type { Generated } from "kysely";
import type { Role } from "../../model/roles.ts";
import type {
  DeviceCodesTable,
  InvitationsTable,
  MembershipsTable,
  PeopleTable,
  SessionsTable,
} from "./schema-people.ts";

/**
 * The tables as the queries see them. Names are camelCase here and snake_case in the database; Kysely's
 * CamelCasePlugin is the one place that converts. Times are epoch milliseconds, booleans 0 or 1, UUIDs their
 * 16 bytes (in a run's row 28 bytes of 186 are saved by that), states their place in the model's list.
 */
export type Schema = {
  projects: ProjectsTable;
  apps: AppsTable;
  versions: VersionsTable;
  builds: BuildsTable;
  buildLines: BuildLinesTable;
  changes: ChangesTable;
  runs: RunsTable;
  payloads: PayloadsTable;
  runBlobs: RunBlobsTable;
  transcripts: TranscriptsTable;
  idempotencyKeys: IdempotencyKeysTable;
  deliveries: DeliveriesTable;
  deliveryAttempts: DeliveryAttemptsTable;
  webhookSecrets: WebhookSecretsTable;
  owners: OwnersTable;
  usage: UsageTable;
  logLines: LogLinesTable;
  logUsage: LogUsageTable;
  serviceAccounts: ServiceAccountsTable;
  tokens: TokensTable;
  signingKeys: SigningKeysTable;
  people: PeopleTable;
  invitations: InvitationsTable;
  memberships: MembershipsTable;
  sessions: SessionsTable;
  deviceCodes: DeviceCodesTable;
  auditEntries: AuditEntriesTable;
  seats: SeatsTable;
  secrets: SecretsTable;
  meta: MetaTable;
};

type ProjectsTable = {
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
  /** The node that serves it, and how often it changed hands; nobody while no node has needed it. */
  owner: Generated<string | null>;
  fence: Generated<number>;
  /** Only if it is hashed. */
  hostLabel: string | null;
};

export type VersionsTable = {
  id: Uint8Array;
  appNumber: number;
  number: number;
  /** An `AppConfig` as JSON. */
  config: string;
  /** Named from the data directory on, as is the environment. */
  bundleDir: string;
  /** A list of `FunctionSignature` as JSON. */
  functions: string | null;
  createdAt: number;
  environment: string | null;
  bundleHash: string | null;
  /** `ScalingOverrides` as JSON. */
  overrides: string | null;
  bundleBlob: string | null;
  bundleBytes: number | null;
  environmentBlob: string | null;
  environmentBytes: number | null;
  environmentTag: string | null;
};

export type BuildsTable = {
  id: Uint8Array;
  appNumber: number;
  status: number;
  message: string | null;
  /** What the deploy was asked for with, as JSON. */
  payload: string;
  createdAt: number;
  updatedAt: number;
};

type BuildLinesTable = {
  buildId: Uint8Array;
  number: number;
  createdAt: number;
  stream: number;
  stage: number;
  text: string;
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
  accountId: string | null;
  callerUser: string | null;
  webhookEndpoint: string | null;
  webhookState: number;
  errorCode: string | null;
  errorMessage: string | null;
  errorTraceback: string | null;
  queueMs: number | null;
  runMs: number | null;
  responseMs: number | null;
  interruptions: number;
  isWebSocket: number;
  requestBytes: number | null;
  responseBytes: number | null;
  /** Who executes it; null while it is queued and when it has ended. */
  owner: string | null;
  /** How often it was claimed: a write that carries an older number comes too late. */
  fence: number;
};

export type PayloadsTable = {
  appNumber: number;
  id: Uint8Array;
  input: Uint8Array | null;
  result: Uint8Array | null;
  contentType: string | null;
  isBare: number;
  sealedSecret: Uint8Array | null;
  /** The hash and the length of a blob that holds the input, or the result, in place of the column above. */
  inputBlob: string | null;
  inputBytes: number | null;
  resultBlob: string | null;
  resultBytes: number | null;
};

/** Runs that name, or once named, a blob: what their rows say counts. */
type RunBlobsTable = {
  hash: string;
  appNumber: number;
  id: Uint8Array;
};

export type TranscriptsTable = {
  appNumber: number;
  id: Uint8Array;
  firstEvent: number;
  eventCount: number;
  bytes: Uint8Array;
};

type IdempotencyKeysTable = {
  appNumber: number;
  keyHash: Uint8Array;
  runId: Uint8Array;
  fingerprint: Uint8Array;
  createdAt: number;
};

export type DeliveriesTable = {
  id: Uint8Array;
  appNumber: number;
  url: string;
  contentType: string | null;
  runStatus: number;
  body: Uint8Array | null;
  /** The hash and the length of a blob that holds it instead. */
  bodyBlob: string | null;
  bodyBytes: number | null;
  sealedSecret: Uint8Array | null;
  state: number;
  attempts: number;
  nextAt: number | null;
  createdAt: number;
  updatedAt: number;
  /** Who is making an attempt. */
  owner: string | null;
};

type DeliveryAttemptsTable = {
  deliveryId: Uint8Array;
  number: number;
  startedAt: number;
  durationMs: number;
  /** As JSON. */
  requestHeaders: string;
  status: number | null;
  error: string | null;
  nextAt: number | null;
};

export type WebhookSecretsTable = {
  id: string;
  projectId: string;
  sealedSecret: Uint8Array;
  createdAt: number;
  retiredAt: number | null;
};

/** The nodes: services that hold apps, runs or deliveries, and how long each is taken to be alive, by the database's clock. */
type OwnersTable = {
  id: string;
  leaseUntil: number;
  /** Where the others reach it; null for a service alone. */
  url: Generated<string | null>;
  /** `NodeDetails` as JSON. */
  details: Generated<string | null>;
  /** Since when it takes no more apps. */
  leavingAt: Generated<number | null>;
};

type ChangesTable = {
  number: Generated<number>;
  topic: string;
  subject: string;
  createdAt: number;
  /** The transaction that wrote it. */
  txid: Generated<unknown>;
};

/** What is stored, as the sum of a few rows: one alone would make every transaction wait for the one before. */
type UsageTable = {
  slot: number;
  runs: number;
  /** Of inputs, results and transcripts. */
  bytes: number;
};

/** What the lines of each app take up. */
type LogUsageTable = {
  appNumber: number;
  bytes: number;
};

export type LogLinesTable = {
  appNumber: number;
  id: Uint8Array;
  runId: Uint8Array | null;
  replicaId: string;
  lineNumber: number;
  stream: number;
  text: string;
};

export type ServiceAccountsTable = {
  id: string;
  projectId: string;
  name: string;
  description: string | null;
  role: Role;
  createdAt: number;
  expiresAt: number;
  revokedAt: number | null;
  lastUsedAt: number | null;
  /** `CallLimits` as JSON, of role `call`. */
  callLimits: string | null;
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

type MetaTable = {
  key: string;
  value: string;
};

export type AuditEntriesTable = {
  /** From 1, without a gap. */
  number: number;
  projectId: string | null;
  createdAt: number;
  entry: string;
  hash: Uint8Array;
};

type SeatsTable = {
  id: string;
  appNumber: number;
  versionId: Uint8Array;
  placeName: string;
  secretHash: Uint8Array;
  fence: number;
  owner: string;
  createdAt: number;
  workload: Uint8Array | null;
  lostAt: number | null;
};

type SecretsTable = {
  projectId: string;
  /** 0 for the whole project. */
  appNumber: number;
  sealedMap: Uint8Array;
  updatedAt: number;
};
