import { accounts, tokens } from "./accounts/accounts.ts";
import { appStorage } from "./apps/app-storage.ts";
import { appOwners } from "./nodes/app-owners.ts";
import { apps } from "./apps/apps.ts";
import { auditEntries } from "./accounts/audit.ts";
import { batchFiles, openaiBatches } from "./batches/openai-batches.ts";
import { batchLines } from "./batches/batch-lines.ts";
import { delayedLines } from "./batches/delayed-lines.ts";
import { buildLines, builds } from "./apps/builds.ts";
import { bulkJobs } from "./runs/bulk-jobs.ts";
import { changes } from "./nodes/changes.ts";
import { checkpoints } from "./runs/checkpoints.ts";
import { claims } from "./runs/claims.ts";
import { dailyUsage, replicaUsage } from "./usage/daily-usage.ts";
import { deliveries } from "./runs/deliveries.ts";
import { deviceCodes, sessions } from "./accounts/sessions.ts";
import { firings } from "./schedules/firings.ts";
import { figures, runFigures } from "./runs/run-figures.ts";
import { lineBatches } from "./batches/line-batches.ts";
import { integrity, space } from "./upkeep/file-upkeep.ts";
import { invitations } from "./accounts/invitations.ts";
import { keys } from "./runs/accepted-runs.ts";
import { keyLines } from "./runs/key-limits.ts";
import { logs } from "./apps/logs.ts";
import { memberships, projects } from "./accounts/memberships.ts";
import { meta } from "./meta.ts";
import { nodes } from "./nodes/nodes.ts";
import type { AnyOperation, Operation } from "./operation.ts";
import { payloads, runBlobs } from "./runs/payloads.ts";
import { people } from "./accounts/people.ts";
import { queueDepth } from "./runs/queue-depth.ts";
import { quotaCounts } from "./usage/quota-counts.ts";
import { queueStates } from "./apps/queue-states.ts";
import { retention } from "./runs/retention.ts";
import { runs } from "./runs/runs.ts";
import { schedules } from "./schedules/schedules.ts";
import { seats } from "./nodes/seats.ts";
import { secrets, signingKeys, webhookSecrets } from "./accounts/sealed-secrets.ts";
import { limits } from "./runs/terms.ts";
import { transcripts } from "./runs/transcripts.ts";
import { versionBlobs, versions } from "./apps/versions.ts";

const OPERATIONS = {
  accounts,
  appOwners,
  appStorage,
  apps,
  auditEntries,
  batchFiles,
  batchLines,
  delayedLines,
  buildLines,
  builds,
  bulkJobs,
  changes,
  checkpoints,
  claims,
  dailyUsage,
  deliveries,
  deviceCodes,
  figures,
  firings,
  integrity,
  invitations,
  keyLines,
  keys,
  limits,
  lineBatches,
  logs,
  memberships,
  meta,
  nodes,
  openaiBatches,
  payloads,
  people,
  projects,
  queueDepth,
  queueStates,
  quotaCounts,
  replicaUsage,
  retention,
  runFigures,
  runs,
  schedules,
  seats,
  secrets,
  sessions,
  signingKeys,
  space,
  tokens,
  transcripts,
  runBlobs,
  versionBlobs,
  versions,
  webhookSecrets,
};
type Operations = typeof OPERATIONS;

type Call<O> =
  O extends Operation<infer Input, infer Result, infer _> ? (input: Input) => Promise<Result> : never;

/** Every operation as a method: `calls.runs.find({ appNumber, id })`. */
export type Calls = {
  readonly [Table in keyof Operations]: {
    readonly [Name in keyof Operations[Table]]: Call<Operations[Table][Name]>;
  };
};

const BY_NAME = new Map<string, AnyOperation>(
  Object.entries(OPERATIONS).flatMap(([table, operations]) =>
    Object.entries(operations).map(([name, operation]): [string, AnyOperation] => [
      `${table}.${name}`,
      operation as AnyOperation,
    ]),
  ),
);

/** The names of all operations. */
export const OPERATION_NAMES: readonly string[] = [...BY_NAME.keys()];

/** The operation of that name, such as `runs.find`. */
export function operationNamed(name: string): AnyOperation {
  const operation = BY_NAME.get(name);
  if (!operation) throw new Error(`there is no operation ${name}`);
  return operation;
}

/** Makes the methods; each packs its input and hands it to `run` with the operation's name. */
export function callsThrough(run: (name: string, packed: unknown) => Promise<unknown>): Calls {
  const calls: Record<string, Record<string, (input: never) => Promise<unknown>>> = {};
  for (const [path, operation] of BY_NAME) {
    const [table = "", name = ""] = path.split(".");
    calls[table] ??= {};
    calls[table][name] = async (input) => await run(path, operation.pack(input));
  }
  return calls as Calls;
}
