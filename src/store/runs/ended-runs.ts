import { uuidBytes } from "../../kit/ids.ts";
import type { Payload, Run, RunKey, RunPart, TranscriptPart } from "../../model/run.ts";
import { buffersOf, type ColumnBatch, joinBatches, rowOf, UUID_BYTES } from "../column-batch.ts";
import type { ColumnInsert } from "../operation.ts";
import { packPayloads, payloadFromRow, type PayloadRow, payloadRows } from "./payloads.ts";
import { packRuns, runFromRow, type RunRow } from "./run-columns.ts";
import { packParts } from "./transcripts.ts";

/** A run that ended before anything of it was stored, and the last part of its transcript. */
export type EndedRun = Readonly<{ run: Run; payload: Payload | null; part: TranscriptPart | null }>;

/** Ended runs to be stored, packed so that they do not keep their calls in memory. */
export type EndedBatch = {
  readonly runs: ColumnBatch;
  readonly payloads: ColumnBatch | null;
  readonly parts: ColumnBatch | null;
};

export function packEnded(ended: readonly EndedRun[]): EndedBatch {
  const runs: Run[] = [];
  const kept: { run: Run; payload: Payload }[] = [];
  const parts: RunPart[] = [];
  for (const { run, payload, part } of ended) {
    runs.push(run);
    if (payload) kept.push({ run, payload });
    if (part) parts.push({ appNumber: run.appNumber, id: run.id, ...part });
  }
  return {
    runs: packRuns(runs),
    // None is large enough to be in a blob.
    payloads: kept.length > 0 ? packPayloads(kept).rows : null,
    parts: parts.length > 0 ? packParts(parts) : null,
  };
}

export function joinEnded(batches: readonly EndedBatch[]): EndedBatch {
  const [only] = batches;
  // A large payload is in a batch of its own, and is not copied.
  if (only && batches.length === 1) return only;
  return {
    runs: joinBatches(batches.map(({ runs }) => runs)),
    payloads: joinSome(batches.map(({ payloads }) => payloads)),
    parts: joinSome(batches.map(({ parts }) => parts)),
  };
}

function joinSome(batches: readonly (ColumnBatch | null)[]): ColumnBatch | null {
  const some = batches.filter((batch) => batch !== null);
  return some.length > 0 ? joinBatches(some) : null;
}

/** Frees the memory of a batch. */
export function discardEnded(batch: EndedBatch): void {
  for (const buffer of buffersOf(batch)) buffer.transfer(0);
}

/** A run of the batch with a copy of its payload, which outlives the batch. */
export function findEnded({ runs, payloads }: EndedBatch, { appNumber, id }: RunKey) {
  const row = findRow(runs, id);
  const run = row === -1 ? null : runFromRow(rowOf(runs, row) as RunRow);
  if (run?.appNumber !== appNumber) return null;
  const payloadRow = payloads ? findRow(payloads, id) : -1;
  if (!payloads || payloadRow === -1) return { run, payload: null };
  const { input, result, ...payload } = payloadFromRow(rowOf(payloads, payloadRow) as PayloadRow);
  return {
    run,
    payload: { ...payload, input: input && Buffer.from(input), result: result && Buffer.from(result) },
  };
}

/** The index of the row with that id, which is its first UUID; -1 if there is none. */
function findRow({ rowCount, uuids: { names, bytes } }: ColumnBatch, id: string): number {
  const wanted = uuidBytes(id);
  for (let row = 0; row < rowCount; row++) {
    const at = row * names.length * UUID_BYTES;
    // From the end: ids of the same time begin with the same bytes.
    let i = UUID_BYTES - 1;
    while (i >= 0 && bytes[at + i] === wanted[i]) i -= 1;
    if (i === -1) return row;
  }
  return -1;
}

export function endedRows({ runs, payloads, parts }: EndedBatch): ColumnInsert[] {
  return [
    { table: "runs", batch: runs, haveEnded: true },
    ...(payloads ? payloadRows({ rows: payloads, blobs: null }) : []),
    ...(parts ? [{ table: "transcripts", batch: parts, counted: ["bytes"] } as const] : []),
  ];
}
