import { type Kysely, sql } from "kysely";
import { createTables, type Dialect, type Tables } from "./tables.ts";

/** The tables of the first release. Tables that others refer to come first. */
export const INITIAL_TABLES = {
  /** Facts about the installation. */
  meta: { key: "text primary key", value: "text" },
  projects: { id: "text primary key", name: "text", createdAt: "bigint" },
  apps: {
    number: "counter",
    projectId: "text references projects (id)",
    name: "text",
    currentVersionId: "bytes?",
    createdAt: "bigint",
    updatedAt: "bigint",
    deletedAt: "bigint?",
    /** The node that serves it, null until a node needs it, and how often the app changed hands. */
    owner: "text?",
    fence: "bigint default 0",
    hostLabel: "text?", // Null unless it is hashed.
    indexes: [
      "unique apps_by_name (project_id, name) where deleted_at is null",
      "apps_by_owner (owner, number) where deleted_at is null",
      "apps_by_host_label (host_label) where host_label is not null",
    ],
  },
  versions: {
    id: "bytes primary key",
    appNumber: "integer references apps (number)",
    number: "integer",
    config: "text", // An `AppConfig` as JSON.
    overrides: "text?", // `ScalingOverrides` as JSON.
    functions: "text?", // A list of `FunctionSignature` as JSON.
    bundleDir: "text", // A path relative to the data directory, as is the environment.
    bundleHash: "text?",
    bundleBlob: "text?",
    bundleBytes: "bigint?",
    environment: "text?",
    environmentBlob: "text?",
    environmentBytes: "bigint?",
    environmentTag: "text?",
    createdAt: "bigint",
    constraint: "constraint versions_by_number unique (app_number, number)",
    indexes: [
      // To find out whether a version still names a blob.
      "versions_by_bundle_blob (bundle_blob)",
      "versions_by_environment_blob (environment_blob)",
    ],
  },
  // One row for each project (app 0) and one for each app: the map of secrets is sealed and replaced as a whole.
  secrets: {
    projectId: "text references projects (id)",
    appNumber: "integer", // 0 for the whole project.
    sealedMap: "bytes",
    updatedAt: "bigint",
    constraint: "constraint secrets_by_place primary key (project_id, app_number)",
  },
  auditEntries: {
    number: "bigint primary key", // From 1, without a gap.
    projectId: "text?",
    createdAt: "bigint",
    entry: "text",
    hash: "bytes",
    indexes: ["audit_entries_by_project (project_id, number)"],
  },
  builds: {
    id: "bytes primary key",
    appNumber: "integer references apps (number)",
    status: "smallint",
    message: "text?",
    payload: "text", // The options of the deploy, as JSON.
    createdAt: "bigint",
    updatedAt: "bigint",
    indexes: ["builds_by_app (app_number, id)", "builds_unfinished (id) where status < 3"],
  },
  buildLines: {
    isInKeyOrder: true,
    buildId: "bytes",
    number: "integer",
    createdAt: "bigint",
    stream: "smallint",
    stage: "smallint",
    text: "text",
    constraint: "constraint build_lines_by_number primary key (build_id, number)",
  },
  // No foreign keys: records are written in batches later, and one odd row must not fail the rest.
  runs: {
    isInKeyOrder: true,
    appNumber: "integer",
    id: "bytes",
    versionId: "bytes",
    functionName: "text",
    method: "text",
    isAsync: "smallint",
    isWebSocket: "smallint default 0",
    state: "smallint",
    statusCode: "smallint?",
    attempt: "integer",
    interruptions: "integer default 0",
    owner: "text?", // The node that executes it; null when it is queued or has ended.
    /** How often it was claimed: a write with an older number is too late. */
    fence: "integer default 0",
    createdAt: "bigint",
    startedAt: "bigint?",
    completedAt: "bigint?",
    updatedAt: "bigint",
    replicaId: "text?",
    replicaStartedAt: "bigint?",
    ip: "text?",
    accountId: "text?",
    callerUser: "text?",
    webhookEndpoint: "text?",
    webhookState: "smallint",
    errorCode: "text?",
    errorMessage: "text?",
    errorTraceback: "text?",
    queueMs: "double?",
    runMs: "double?",
    responseMs: "double?",
    requestBytes: "bigint?",
    responseBytes: "bigint?",
    constraint: "constraint runs_by_id primary key (app_number, id)",
    indexes: [
      // Partial: a sync run that succeeds, the common case, then writes the table and nothing else.
      "runs_unfinished (app_number, id) where state in (0, 1)",
      "runs_running (app_number, id) where state = 1",
      "runs_failed (app_number, id) where state = 3",
      "runs_cancelled (app_number, id) where state = 4",
      "runs_async (app_number, id) where is_async = 1",
      "runs_async_failed (app_number, id) where is_async = 1 and state = 3",
      "runs_async_cancelled (app_number, id) where is_async = 1 and state = 4",
    ],
  },
  idempotencyKeys: {
    isInKeyOrder: true,
    appNumber: "integer",
    keyHash: "bytes",
    runId: "bytes",
    fingerprint: "bytes",
    createdAt: "bigint",
    constraint: "constraint idempotency_keys_by_hash primary key (app_number, key_hash)",
    indexes: ["idempotency_keys_by_age (created_at)"],
  },
  /**
   * The contents of runs. Not in key order: SQLite would put every row of more than a
   * kilobyte into pages of its own. A row of 6 kB then took 13 to 22 µs and 8.8 kB, instead of 4 µs and 6.2 kB.
   */
  payloads: {
    appNumber: "integer",
    id: "bytes",
    contentType: "text?",
    isBare: "smallint",
    sealedSecret: "bytes?",
    /** The hash and the length of a blob that holds the input, or the result, instead of its column. */
    inputBlob: "text?",
    inputBytes: "bigint?",
    resultBlob: "text?",
    resultBytes: "bigint?",
    input: "bytes?", // Last: SQLite reads a row up to the columns that are asked for.
    result: "bytes?",
    constraint: "constraint payloads_by_id primary key (app_number, id)",
  },
  /** Blobs that runs name or once named. Few do, and an index over all payloads would slow down every run. */
  runBlobs: {
    isInKeyOrder: true,
    hash: "text",
    appNumber: "integer",
    id: "bytes",
    constraint: "constraint run_blobs_by_hash primary key (hash, app_number, id)",
  },
  transcripts: {
    appNumber: "integer",
    id: "bytes",
    firstEvent: "bigint",
    eventCount: "bigint",
    bytes: "bytes",
    constraint: "constraint transcripts_by_event primary key (app_number, id, first_event)",
  },
  deliveries: {
    id: "bytes primary key",
    appNumber: "integer",
    url: "text",
    contentType: "text?",
    runStatus: "smallint",
    state: "smallint",
    attempts: "integer",
    nextAt: "bigint?",
    createdAt: "bigint",
    updatedAt: "bigint",
    owner: "text?", // The node that is making an attempt.
    sealedSecret: "bytes?",
    bodyBlob: "text?", // The hash and the length of a blob that holds it instead.
    bodyBytes: "bigint?",
    body: "bytes?",
    indexes: [
      "deliveries_due (next_at) where state = 0",
      "deliveries_by_age (created_at) where state = 0",
      "deliveries_held (owner) where state = 0 and owner is not null",
      "deliveries_ended (updated_at) where state <> 0",
      "deliveries_kept (app_number, id) where state <> 0 and body is not null",
      "deliveries_by_app (app_number, id)",
    ],
  },
  deliveryAttempts: {
    isInKeyOrder: true,
    deliveryId: "bytes",
    number: "integer",
    startedAt: "bigint",
    durationMs: "double",
    requestHeaders: "text", // As JSON.
    status: "smallint?",
    error: "text?",
    nextAt: "bigint?",
    constraint: "constraint delivery_attempts_by_number primary key (delivery_id, number)",
  },
  webhookSecrets: {
    id: "text primary key",
    projectId: "text references projects (id)",
    sealedSecret: "bytes",
    createdAt: "bigint",
    retiredAt: "bigint?",
    indexes: ["webhook_secrets_by_project (project_id, created_at)"],
  },
  logLines: {
    isInKeyOrder: true,
    appNumber: "integer",
    id: "bytes",
    runId: "bytes?",
    replicaId: "text",
    lineNumber: "bigint",
    stream: "smallint",
    text: "text",
    constraint: "constraint log_lines_by_id primary key (app_number, id)",
    indexes: [
      "log_lines_by_run (app_number, run_id, id) where run_id is not null",
      // Over all apps: the oldest lines go first.
      "log_lines_by_age (id)",
    ],
  },
  /** How many bytes the lines of each app take up. */
  logUsage: { appNumber: "integer primary key", bytes: "bigint" },
  /** The nodes: services that own apps, runs and deliveries, each until its lease ends by the clock of the database. */
  owners: {
    id: "text primary key",
    leaseUntil: "bigint",
    url: "text?", // Where other nodes reach it; null for a single service.
    details: "text?", // `NodeDetails` as JSON.
    leavingAt: "bigint?", // When it stopped taking apps.
  },
  /** Seats on other machines. */
  seats: {
    isInKeyOrder: true,
    id: "text primary key",
    appNumber: "integer",
    versionId: "bytes",
    placeName: "text",
    secretHash: "bytes",
    fence: "bigint",
    owner: "text",
    createdAt: "bigint",
    workload: "bytes?",
    lostAt: "bigint?",
    indexes: ["seats_by_owner (owner)"],
  },
  /**
   * What services that share a database tell each other: what was changed, and by which transaction. A reader that
   * remembers a snapshot finds exactly what was committed since, whatever the order of the transactions.
   */
  changes: {
    number: "bigCounter", // Never given twice, also after rows are removed.
    topic: "text",
    subject: "text",
    createdAt: "bigint",
    txid: "transaction", // The transaction that wrote the row.
    indexes: ["changes_by_txid (txid)"],
  },
  /** The stored amounts, as the sum of 16 rows: with a single row, each transaction would wait for the previous one. */
  usage: {
    slot: "integer primary key",
    runs: "bigint",
    bytes: "bigint", // Of inputs, results and transcripts.
  },
  serviceAccounts: {
    id: "text primary key",
    projectId: "text references projects (id)",
    name: "text",
    description: "text?",
    role: "text",
    callLimits: "text?", // `CallLimits` as JSON, of role `call`.
    createdAt: "bigint",
    expiresAt: "bigint",
    revokedAt: "bigint?",
    lastUsedAt: "bigint?",
    indexes: ["service_accounts_by_project (project_id, created_at)"],
  },
  tokens: {
    jtiHash: "bytes primary key",
    accountId: "text references service_accounts (id)",
    createdAt: "bigint",
    expiresAt: "bigint",
    revokedAt: "bigint?",
    indexes: ["tokens_by_account (account_id)"],
  },
  signingKeys: {
    id: "text primary key",
    sealedPrivate: "bytes",
    publicJwk: "text",
    createdAt: "bigint",
    retiredAt: "bigint?",
  },
  people: {
    id: "text primary key",
    /** In lower case. Several people may have the same one, until one of them proves it. */
    email: "text",
    /** When the person proved that they receive mail there; then the address is unique. */
    provenAt: "bigint?",
    signInKey: "bytes", // Derived from address and password, which cannot be derived from it.
    createdAt: "bigint",
    updatedAt: "bigint",
    indexes: [
      "unique people_by_sign_in (email, sign_in_key)",
      "unique people_proven (email) where proven_at is not null",
    ],
  },
  invitations: {
    id: "text primary key",
    projectId: "text references projects (id)",
    role: "text check (role in ('owner', 'member'))",
    email: "text", // In lower case. Only a label: anyone with the secret may accept.
    secretHash: "bytes unique",
    inviterId: "text", // A person or a service account.
    isMailed: "smallint", // 1: the secret was only mailed, and never shown to the inviter.
    mailedAt: "bigint?", // When the mail server accepted it.
    createdAt: "bigint",
    expiresAt: "bigint",
    usedAt: "bigint?",
    usedBy: "text? references people (id)",
    indexes: ["invitations_by_project (project_id, created_at)", "invitations_by_expiry (expires_at)"],
  },
  memberships: {
    personId: "text references people (id)",
    projectId: "text references projects (id)",
    role: "text check (role in ('owner', 'member'))",
    createdAt: "bigint",
    constraint: "constraint memberships_by_person primary key (person_id, project_id)",
    indexes: ["memberships_by_project (project_id)"],
  },
  sessions: {
    id: "text primary key",
    personId: "text references people (id)",
    kind: "text check (kind in ('browser', 'device'))",
    /** The hashes of a refresh token's constant part and of the part that changes with each use. */
    familyHash: "bytes unique",
    secretHash: "bytes",
    previousHash: "bytes?",
    createdAt: "bigint",
    refreshedAt: "bigint",
    expiresAt: "bigint",
    indexes: ["sessions_by_person (person_id)", "sessions_by_expiry (expires_at)"],
  },
  deviceCodes: {
    deviceHash: "bytes primary key",
    userHash: "bytes unique",
    personId: "text? references people (id)", // The person who approved it.
    createdAt: "bigint",
    expiresAt: "bigint",
    indexes: ["device_codes_by_expiry (expires_at)"],
  },
} as const satisfies Tables;

/** Creates them. */
export async function initial(db: Kysely<unknown>, dialect: Dialect): Promise<void> {
  await createTables(db, dialect, INITIAL_TABLES);
  for (let slot = 0; slot < 16; slot++) await sql`insert into usage values (${slot}, 0, 0)`.execute(db);
  if (dialect.kind === "sqlite") await addStatistics(db);
}

/**
 * Without statistics SQLite assumes that every index is as long as its table, and would search all runs of an app for the
 * few that failed. These are those of a long-lived service: rows, rows of one app, rows of one id.
 */
async function addStatistics(db: Kysely<unknown>): Promise<void> {
  // Creates the table of statistics, with rows that say that every table is empty.
  await sql`analyze`.execute(db);
  await sql`delete from sqlite_stat1`.execute(db);
  await sql`
    insert into sqlite_stat1 (tbl, idx, stat) values
      ('apps', 'apps_by_host_label', '1000 1'),
      ('builds', 'builds_by_app', '10000 100 1'),
      ('builds', 'builds_unfinished', '10 1'),
      ('runs', 'runs', '10000000 100000 1'),
      ('runs', 'runs_async', '1000000 10000 1'),
      ('runs', 'runs_async_cancelled', '1000 10 1'),
      ('runs', 'runs_async_failed', '10000 100 1'),
      ('runs', 'runs_cancelled', '10000 100 1'),
      ('runs', 'runs_failed', '100000 1000 1'),
      ('runs', 'runs_running', '100 10 1'),
      ('runs', 'runs_unfinished', '1000 10 1'),
      ('payloads', 'sqlite_autoindex_payloads_1', '1000000 10000 1'),
      ('transcripts', 'sqlite_autoindex_transcripts_1', '1000000 10000 10 1'),
      ('deliveries', 'sqlite_autoindex_deliveries_1', '1000000 1'),
      ('deliveries', 'deliveries_by_age', '1000 2'),
      ('deliveries', 'deliveries_by_app', '1000000 10000 1'),
      ('deliveries', 'deliveries_due', '1000 2'),
      ('deliveries', 'deliveries_ended', '1000000 2'),
      ('deliveries', 'deliveries_held', '100 100'),
      ('deliveries', 'deliveries_kept', '100000 1000 1'),
      ('log_lines', 'log_lines', '10000000 100000 1'),
      ('log_lines', 'log_lines_by_age', '10000000 1'),
      ('log_lines', 'log_lines_by_run', '10000000 100000 10 1')
  `.execute(db);
  // Loads them now: this connection continues as the writer.
  await sql`analyze sqlite_schema`.execute(db);
}
