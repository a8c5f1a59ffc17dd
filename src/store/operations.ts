import { accounts } from "./accounts.ts";
import { appStorage } from "./app-storage.ts";
import { appOwners } from "./app-owners.ts";
import { apps } from "./apps.ts";
import { auditEntries } from "./audit-entries.ts";
import { buildLines } from "./build-lines.ts";
import { builds } from "./builds.ts";
import { changes } from "./changes.ts";
import { claims } from "./claims.ts";
import { deliveries } from "./deliveries.ts";
import { deviceCodes } from "./device-codes.ts";
import { figures } from "./figures.ts";
import { integrity } from "./integrity.ts";
import { invitations } from "./invitations.ts";
import { keys } from "./keys.ts";
import { logs } from "./log-lines.ts";
import { memberships } from "./memberships.ts";
import { meta } from "./meta.ts";
import { nodes } from "./nodes.ts";
import type { AnyOperation, Operation } from "./operation.ts";
import { payloads } from "./payloads.ts";
import { people } from "./people.ts";
import { projects } from "./projects.ts";
import { retention } from "./retention.ts";
import { runFigures } from "./run-figures.ts";
import { runs } from "./runs.ts";
import { seats } from "./seats.ts";
import { secrets } from "./secrets.ts";
import { sessions } from "./sessions.ts";
import { signingKeys } from "./signing-keys.ts";
import { space } from "./space.ts";
import { tokens } from "./tokens.ts";
import { transcripts } from "./transcripts.ts";
import { runBlobs } from "./run-blobs.ts";
import { versionBlobs } from "./version-blobs.ts";
import { versions } from "./versions.ts";
import { webhookSecrets } from "./webhook-secrets.ts";

const OPERATIONS = {
  accounts,
  appOwners,
  appStorage,
  apps,
  auditEntries,
  buildLines,
  builds,
  changes,
  claims,
  deliveries,
  deviceCodes,
  figures,
  integrity,
  invitations,
  keys,
  logs,
  memberships,
  meta,
  nodes,
  payloads,
  people,
  projects,
  retention,
  runFigures,
  runs,
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
