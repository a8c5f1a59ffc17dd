import { uuidText } from "../../kit/ids.ts";
import type { Checkpoint, Progress, RunAdvance, RunKey, TranscriptPart } from "../../model/run.ts";
import { type ColumnBatch, packColumns, pickRows } from "../column-batch.ts";
import { packedWrite, read, type Row, type Session } from "../operation.ts";
import { all, chunks, firstOf, type StoredKey, storedKey } from "../queries.ts";
import { packSparse, type Sparse } from "./final-runs.ts";
import { addUsage } from "./removal.ts";
import { isInState } from "./run-columns.ts";
import { packParts } from "./transcripts.ts";

/** What a run that its claimer still holds adds to what is stored of it: all of it or nothing. */
export type CheckpointWrite = RunKey & {
  readonly fence: number;
  readonly owner: string;
  /** The next chunks of its transcript. */
  readonly part: TranscriptPart | null;
  /** The part begins with one that is stored, and takes its place. */
  readonly isGrown?: boolean;
  /** It replaces an earlier one. */
  readonly checkpoint: Checkpoint | null;
  readonly progress: Progress | null;
};

type Packed = {
  readonly claims: readonly (StoredKey & Pick<CheckpointWrite, "fence" | "owner">)[];
  readonly parts: Sparse | null;
  readonly grown: Sparse | null;
  /** Where each of these begins. */
  readonly grownFrom: readonly number[];
  readonly checkpoints: Sparse | null;
  readonly progress: Sparse | null;
};

const KEY = ["appNumber", "id"] as const;

type Sourced<Value> = RunKey & { readonly value: Value };
const CHECKPOINT = {
  numbers: {
    appNumber: ({ appNumber }: Sourced<Checkpoint>) => appNumber,
    sent: ({ value }: Sourced<Checkpoint>) => value.sent,
    attempt: ({ value }: Sourced<Checkpoint>) => value.attempt,
    storedAt: ({ value }: Sourced<Checkpoint>) => value.at,
  },
  texts: {},
  uuids: { id: ({ id }: RunKey) => id },
  blobs: { value: ({ value }: Sourced<Checkpoint>) => value.value },
};
const PROGRESS = {
  numbers: {
    appNumber: ({ appNumber }: Sourced<Progress>) => appNumber,
    fraction: ({ value }: Sourced<Progress>) => value.fraction,
    reportedAt: ({ value }: Sourced<Progress>) => value.at,
  },
  texts: { message: ({ value }: Sourced<Progress>) => value.message },
  uuids: { id: ({ id }: RunKey) => id },
};

// Compiles only while every column has a source.
({
  ...CHECKPOINT.numbers,
  ...CHECKPOINT.uuids,
  ...CHECKPOINT.blobs,
  ...PROGRESS.numbers,
  ...PROGRESS.texts,
}) satisfies Record<keyof Row<"checkpoints">, unknown>;

function packWrites(writes: readonly CheckpointWrite[]): Packed {
  const keyed = <Value>(value: Value | null, { appNumber, id }: RunKey) => value && { appNumber, id, value };
  const parts = writes.map(({ part, appNumber, id }) => part && { appNumber, id, ...part });
  return {
    claims: writes.map(({ fence, owner, ...key }) => ({ ...storedKey(key), fence, owner })),
    parts: packSparse(
      parts.map((part, i) => (writes[i]?.isGrown ? null : part)),
      packParts,
    ),
    grown: packSparse(
      parts.map((part, i) => (writes[i]?.isGrown ? part : null)),
      packParts,
    ),
    grownFrom: writes.map(({ part }) => part?.firstEvent ?? 0),
    checkpoints: packSparse(
      writes.map((write) => keyed(write.checkpoint, write)),
      (rows) => packColumns(rows, CHECKPOINT),
    ),
    progress: packSparse(
      writes.map((write) => keyed(write.progress, write)),
      (rows) => packColumns(rows, PROGRESS),
    ),
  };
}

/** Checkpoints and progress of runs. */
export const checkpoints = {
  /**
   * Stores chunks, checkpoints and progress of runs that their claimers still hold; returns the ids of those. At most one
   * write for each run.
   */
  write: packedWrite(packWrites, async (session, packed): Promise<string[]> => {
    const { claims } = packed;
    const held = await heldClaims(session, claims);
    if (held.length === 0) return [];
    const isHeld = held.length < claims.length ? new Set(held) : null;
    const heldOf = ({ batch, indexes }: Sparse): ColumnBatch => {
      if (!isHeld) return batch;
      return pickRows(
        batch,
        indexes.flatMap((index, row) => (isHeld.has(index) ? row : [])),
      );
    };
    let bytes = 0;
    if (packed.parts)
      bytes += (await session.insertColumns("transcripts", heldOf(packed.parts), ["bytes"])).bytes;
    if (packed.grown) {
      const batch = heldOf(packed.grown);
      const rows = packed.grown.indexes.filter((index) => !isHeld || isHeld.has(index));
      const keys = rows.map((index) => ({ ...claims[index]!, firstEvent: packed.grownFrom[index]! }));
      bytes += batch.blobs.bytes.length - (await partBytes(session, keys));
      await upsert(session, "transcripts", batch, [...KEY, "firstEvent"]);
    }
    if (packed.checkpoints) {
      const batch = heldOf(packed.checkpoints);
      const keys = packed.checkpoints.indexes.filter((index) => !isHeld || isHeld.has(index));
      const before = await bytesOf(
        session,
        keys.map((index) => claims[index]!),
      );
      bytes += batch.blobs.bytes.length - before;
      await upsert(session, "checkpoints", batch, KEY);
    }
    if (packed.progress) await upsert(session, "checkpoints", heldOf(packed.progress), KEY);
    await addUsage(session, { bytes });
    return held.map((index) => uuidText(claims[index]!.id));
  }),

  /** What a run has said about how far it has come. */
  find: read(async ({ db }, key: RunKey): Promise<RunAdvance> => {
    const columns = ["sent", "attempt", "storedAt", "fraction", "message", "reportedAt"] as const;
    const row = await firstOf(
      db
        .selectFrom("checkpoints")
        .select(columns)
        .where(all(storedKey(key))),
    );
    if (!row) return { progress: null, checkpoint: null };
    const { sent, attempt, storedAt, fraction, message, reportedAt } = row;
    return {
      progress: reportedAt === null ? null : { fraction, message, at: reportedAt },
      checkpoint: storedAt === null ? null : { at: storedAt, sent: sent ?? 0, attempt: attempt ?? 1 },
    };
  }),
};

/** Runs that were claimed again: the checkpoints of those that have one, and which of them are too much at once. */
export type Resumed = {
  readonly checkpoints: ReadonlyMap<string, Checkpoint>;
  readonly beyond: readonly Uint8Array[];
};

/** Reads the checkpoints of runs of an app in the order of their ids, as many as fit; the first fits whatever its size. */
export async function resume(
  { db, sql }: Session,
  { appNumber, maxBytes }: { readonly appNumber: number; readonly maxBytes: number },
  ids: readonly Uint8Array[],
): Promise<Resumed> {
  const checkpoints = new Map<string, Checkpoint>();
  if (ids.length === 0) return { checkpoints, beyond: [] };
  const { rows: sizes } = await sql<{ id: Uint8Array; size: number }>`
    select id, length(value) as size from checkpoints
    where app_number = ${appNumber} and id in (${sql.join(ids)}) and value is not null order by id
  `.execute(db);
  let bytes = 0;
  const end = sizes.findIndex(({ size }, i) => (bytes += size) > maxBytes && i > 0);
  const fitting = sizes.slice(0, end < 0 ? sizes.length : end).map(({ id }) => id);
  if (fitting.length > 0) {
    const { rows } = await sql<StoredKey & Checkpoint>`
      select id, value, sent, attempt, stored_at as at from checkpoints
      where app_number = ${appNumber} and id in (${sql.join(fitting)})
    `.execute(db);
    for (const { id, value, sent, attempt, at } of rows)
      checkpoints.set(uuidText(id), { value, sent, attempt, at });
  }
  return { checkpoints, beyond: sizes.slice(fitting.length).map(({ id }) => id) };
}

/** The indexes of the claims that still hold their runs, which nothing else changes until the transaction has ended. */
async function heldClaims({ db, sql, shareLock }: Session, claims: Packed["claims"]): Promise<number[]> {
  const held: number[] = [];
  const indexed = claims.map((claim, index) => ({ ...claim, index }));
  const groups = Map.groupBy(indexed, ({ appNumber }) => appNumber);
  // Always in this order, to avoid deadlocks.
  for (const appNumber of [...groups.keys()].toSorted((a, b) => a - b)) {
    const group = groups.get(appNumber)!;
    const { rows } = await sql<{ id: Uint8Array; fence: number; owner: string | null }>`
      select id, fence, owner from runs
      where app_number = ${appNumber} and id in (${sql.join(group.map(({ id }) => id))})
        and ${isInState({ sql }, "running")}
      order by id ${shareLock}
    `.execute(db);
    const found = new Map(rows.map((row) => [uuidText(row.id), row]));
    for (const { id, fence, owner, index } of group) {
      const row = found.get(uuidText(id));
      if (row?.fence === fence && row.owner === owner) held.push(index);
    }
  }
  return held.toSorted((a, b) => a - b);
}

/** The bytes of the values that are stored of these runs. */
async function bytesOf({ db, sql }: Session, keys: readonly StoredKey[]): Promise<number> {
  let bytes = 0;
  for (const [appNumber, group] of Map.groupBy(keys, (key) => key.appNumber))
    for (const ids of chunks(group.map(({ id }) => id))) {
      const { rows } = await sql<{ size: number }>`
        select length(value) as size from checkpoints
        where app_number = ${appNumber} and id in (${sql.join(ids)}) and value is not null
      `.execute(db);
      for (const { size } of rows) bytes += size;
    }
  return bytes;
}

/** The bytes of the parts that begin there. */
async function partBytes(
  { db, sql }: Session,
  keys: readonly (StoredKey & { readonly firstEvent: number })[],
) {
  let bytes = 0;
  for (const [appNumber, group] of Map.groupBy(keys, (key) => key.appNumber)) {
    const isOne = group.map(({ id, firstEvent }) => sql`(id = ${id} and first_event = ${firstEvent})`);
    const { rows } = await sql<{ size: number }>`
      select length(bytes) as size from transcripts
      where app_number = ${appNumber} and (${sql.join(isOne, sql` or `)})
    `.execute(db);
    for (const { size } of rows) bytes += size;
  }
  return bytes;
}

/** Sets the columns of the batch, in rows that may be there or not. */
async function upsert(
  session: Session,
  table: "checkpoints" | "transcripts",
  batch: ColumnBatch,
  match: readonly string[],
): Promise<void> {
  if (batch.rowCount === 0) return;
  const updated = await session.updateColumns(table, batch, { match });
  if (updated.length < batch.rowCount) await session.insertColumns(table, batch);
}
