import { uuidText } from "../kit/ids.ts";
import { RUN_STATES, WEBHOOK_STATES } from "../model/run.ts";
import type { Run, RunState, WebhookState } from "../model/run.ts";
import { packColumns } from "./column-batch.ts";
import type { ColumnBatch, ColumnSources } from "./column-batch.ts";
import type { RunsTable } from "./schema.ts";

// A state is stored as its place in the model's list: those lists may grow at their end, never in between.
const STATE_CODES = codesOf(RUN_STATES);
const WEBHOOK_CODES = codesOf(WEBHOOK_STATES);

function codesOf<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name, code) => [name, code])) as Record<Name, number>;
}

/** The number a state is stored as. */
export function stateCode(state: RunState): number {
  return STATE_CODES[state];
}

const SOURCES = {
  numbers: {
    appNumber: (run) => run.appNumber,
    isAsync: (run) => (run.isAsync ? 1 : 0),
    state: (run) => STATE_CODES[run.state],
    statusCode: (run) => run.statusCode,
    attempt: (run) => run.attempt,
    createdAt: (run) => run.createdAt,
    startedAt: (run) => run.startedAt,
    completedAt: (run) => run.completedAt,
    updatedAt: (run) => run.updatedAt,
    replicaStartedAt: (run) => run.replicaStartedAt,
    webhookState: (run) => WEBHOOK_CODES[run.webhookState],
    queueMs: (run) => run.queueMs,
    runMs: (run) => run.runMs,
    responseMs: (run) => run.responseMs,
  },
  texts: {
    functionName: (run) => run.functionName,
    method: (run) => run.method,
    replicaId: (run) => run.replicaId,
    ip: (run) => run.ip,
    webhookEndpoint: (run) => run.webhookEndpoint,
    errorCode: (run) => run.errorCode,
    errorMessage: (run) => run.errorMessage,
    errorTraceback: (run) => run.errorTraceback,
  },
  uuids: {
    id: (run) => run.id,
    versionId: (run) => run.versionId,
  },
} as const satisfies ColumnSources<Run>;

// Compiles only while every column of the table has a source.
({ ...SOURCES.numbers, ...SOURCES.texts, ...SOURCES.uuids }) satisfies Record<keyof RunsTable, unknown>;

/** The records as columns, ready to travel to the database's thread. */
export function packRuns(runs: readonly Run[]): ColumnBatch {
  return packColumns(runs, SOURCES);
}

/** The record that a row holds. */
export function runFromRow(row: RunsTable): Run {
  return {
    ...row,
    id: uuidText(row.id),
    versionId: uuidText(row.versionId),
    isAsync: row.isAsync === 1,
    state: nameOf<RunState>(RUN_STATES, row.state),
    webhookState: nameOf<WebhookState>(WEBHOOK_STATES, row.webhookState),
  };
}

function nameOf<Name extends string>(names: readonly Name[], code: number): Name {
  const name = names[code];
  if (name === undefined) throw new RangeError(`a stored run has the unknown state ${code}`);
  return name;
}
