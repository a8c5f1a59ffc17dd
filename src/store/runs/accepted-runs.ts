import { all, firstOf } from "../queries.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { type ColumnInsert, read, type Row, type Session, write } from "../operation.ts";
import { endRun, type Payload, type Run, type RunFate, type RunKey } from "../../model/run.ts";
import { type ColumnBatch, packColumns } from "../column-batch.ts";
import { type PackedPayloads, packPayloads, payloadRows } from "./payloads.ts";
import { packRuns, recordSources } from "./run-columns.ts";
import { PARKED } from "../schema/0006-queue-limits.ts";
import { placeOf } from "../../model/terms.ts";
import { type PackedTerms, packTerms, termRows } from "./terms.ts";

/** The run that has an idempotency key. */
type KeyedRun = { readonly runId: string; readonly fingerprint: Uint8Array };

type IdempotencyKey = { readonly appNumber: number; readonly keyHash: Uint8Array };
/** Keys made before `since` have expired. */
type KeyQuery = IdempotencyKey & { readonly since: number };
type HeldKey = IdempotencyKey & { readonly runId: string };

/** Idempotency keys, known by their hash. */
export const keys = {
  find: read(async ({ db }, { appNumber, keyHash, since }: KeyQuery): Promise<KeyedRun | null> => {
    const row = await firstOf(findKey(db, { appNumber, keyHash }).where("createdAt", ">", since));
    return row ? { runId: uuidText(row.runId), fingerprint: row.fingerprint } : null;
  }),

  /** Frees a key, if that run still has it. */
  forget: write(async ({ db }, { appNumber, keyHash, runId }: HeldKey): Promise<void> => {
    const held = { appNumber, keyHash, runId: uuidBytes(runId) };
    await db.deleteFrom("idempotencyKeys").where(all(held)).execute();
  }),
};

function findKey(db: Session["db"], { appNumber, keyHash }: IdempotencyKey) {
  return db.selectFrom("idempotencyKeys").select(["runId", "fingerprint"]).where(all({ appNumber, keyHash }));
}

/** An accepted run; its owner is null if it is queued, so that any node may claim it. */
export type AcceptedRun = {
  readonly run: Run;
  readonly payload: Payload;
  readonly owner: string | null;
  /** It may begin only when its concurrency key is admitted. */
  readonly isParked?: boolean;
};

type PackedAccepts = {
  readonly runs: ColumnBatch;
  readonly payloads: PackedPayloads;
  readonly terms?: PackedTerms;
};

const RECORD = recordSources<AcceptedRun>();
const SOURCES = {
  numbers: { ...RECORD.numbers, fence: ({ owner }: AcceptedRun) => (owner === null ? 0 : 1) },
  texts: { ...RECORD.texts, owner: ({ owner }: AcceptedRun) => owner },
  uuids: RECORD.uuids,
};
/** For batches in which a run has terms. */
const SOURCES_WITH_TERMS = {
  ...SOURCES,
  numbers: {
    ...SOURCES.numbers,
    dueAt: ({ run, isParked }: AcceptedRun) => (isParked ? PARKED : run.dueAt),
  },
  texts: {
    ...SOURCES.texts,
    fairnessKey: ({ run }: AcceptedRun) => run.terms?.fairnessKey ?? null,
    concurrencyKey: ({ run }: AcceptedRun) => run.terms?.concurrencyKey ?? null,
  },
  blobs: { place: ({ run }: AcceptedRun) => placeOf(run) },
};

/** Accepted runs as columns. */
export function packAccepted(accepted: readonly AcceptedRun[]): PackedAccepts {
  const runs = accepted.map(({ run }) => run);
  const special = runs.filter(({ terms }) => terms !== null);
  const sources = special.length > 0 ? SOURCES_WITH_TERMS : SOURCES;
  return {
    runs: packColumns(accepted, sources),
    payloads: packPayloads(accepted),
    ...(special.length > 0 && { terms: packTerms(special) }),
  };
}

/** The rows of accepted runs. */
export function acceptedRows({ runs, payloads, terms }: PackedAccepts): ColumnInsert[] {
  return [{ table: "runs", batch: runs }, ...payloadRows(payloads), ...(terms ? termRows(terms) : [])];
}

/** The end of a refused run, whose record is stored so that the run itself can never be. */
const REFUSED = "storage_unavailable";
const REFUSAL: RunFate = {
  state: "failure",
  statusCode: 503,
  errorCode: REFUSED,
  errorMessage: "The service could not store the run.",
};

type PackedRefusals = { readonly runs: ColumnBatch; readonly keys: readonly RunKey[] };

/** Runs that are to be refused, as columns. */
export function packRefusals(accepted: readonly AcceptedRun[]): PackedRefusals {
  const refused = accepted.map(({ run }): Run => ({
    ...endRun(run, REFUSAL, run.createdAt),
    webhookState: "none",
    webhookEndpoint: null,
  }));
  return { runs: packRuns(refused), keys: refused.map(({ appNumber, id }) => ({ appNumber, id })) };
}

/** Stores refusals of runs that are not stored; returns the ids of all that were refused, now or before. */
export async function refuseRuns(session: Session, { runs, keys }: PackedRefusals): Promise<string[]> {
  await session.insertCounted([{ table: "runs", batch: runs, haveEnded: true }]);
  const ids = keys.map(({ id }) => uuidBytes(id));
  const rows = await session.db
    .selectFrom("runs")
    .select("id")
    .where("id", "in", ids)
    .where("appNumber", "in", [...new Set(keys.map(({ appNumber }) => appNumber))])
    .where("errorCode", "=", REFUSED)
    .execute();
  return rows.map(({ id }) => uuidText(id));
}

type Keyed = {
  readonly accepted: AcceptedRun;
  readonly keyHash: Uint8Array;
  readonly fingerprint: Uint8Array;
  readonly now: number;
  /** How long a key counts. */
  readonly keptMs: number;
};

type PackedKeyed = PackedAccepts & { readonly key: Row<"idempotencyKeys">; readonly expiredAt: number };

/** Accepted, or the key belongs to a run of the same or of a different request. */
type KeyedResult =
  | { readonly kind: "accepted" }
  | { readonly kind: "same"; readonly runId: string }
  | { readonly kind: "different" };

export function packKeyed({ accepted, keyHash, fingerprint, now, keptMs }: Keyed): PackedKeyed {
  const { run } = accepted;
  return {
    ...packAccepted([accepted]),
    key: { appNumber: run.appNumber, keyHash, runId: uuidBytes(run.id), fingerprint, createdAt: now },
    expiredAt: now - keptMs,
  };
}

/** Takes the key and stores the run, or returns the run that has the key. */
export async function acceptKeyed(session: Session, packed: PackedKeyed): Promise<KeyedResult> {
  const { key } = packed;
  for (;;) {
    if (await takeKey(session, packed)) {
      await session.insertCounted(acceptedRows(packed));
      return { kind: "accepted" };
    }
    const holder = await firstOf(findKey(session.db, key));
    // Removed between the two statements: the key is free now.
    if (!holder) continue;
    const isSame = Buffer.compare(holder.fingerprint, key.fingerprint) === 0;
    return isSame ? { kind: "same", runId: uuidText(holder.runId) } : { kind: "different" };
  }
}

/** One statement, so that of two concurrent requests the second waits for the first, and then fails. */
async function takeKey({ db }: Session, { key, expiredAt }: PackedKeyed): Promise<boolean> {
  const { runId, fingerprint, createdAt } = key;
  const taken = db
    .insertInto("idempotencyKeys")
    .values(key)
    .onConflict((conflict) => {
      const replaced = conflict
        .columns(["appNumber", "keyHash"])
        .doUpdateSet({ runId, fingerprint, createdAt });
      return replaced.where("idempotencyKeys.createdAt", "<=", expiredAt);
    });
  return (await firstOf(taken.returning("createdAt"))) !== null;
}
