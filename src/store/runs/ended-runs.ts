import { uuidBytes } from "../../kit/ids.ts";
import type { Payload, Run, RunKey, RunPart, TranscriptPart } from "../../model/run.ts";
import { buffersOf, joinBatches, rowOf, UUID_BYTES } from "../column-batch.ts";
import type { ColumnBatch } from "../column-batch.ts";
import type { ColumnInsert } from "../operation.ts";
import { packPayloads, payloadFromRow, payloadRows } from "./payloads.ts";
import type { PayloadRow } from "./payloads.ts";
import { packRuns, runFromRow } from "./run-columns.ts";
import type { RunRow } from "./run-columns.ts";
import { packParts } from "./transcripts.ts";

/** A run that ended before anything of it was stored. */
export type EndedRun = {
  readonly run: Run;
  readonly payload: Payload | null;
  /** The last part of its transcript. */
  readonly part: TranscriptPart | null;
};

/** Ended runs on their way to the store. Packed they hold nothing of the calls they come from. */
export type EndedBatch = {
  readonly runs: ColumnBatch;
  readonly payloads: ColumnBatch | null;
  readonly parts: ColumnBatch | null;
};

/** Takes ended runs apart. */
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
    // None is so large that it would lie in a blob.
    payloads: kept.length > 0 ? packPayloads(kept).rows : null,
    parts: parts.length > 0 ? packParts(parts) : null,
  };
}

/** All of them as one. */
export function joinEnded(batches: readonly EndedBatch[]): EndedBatch {
  const [only] = batches;
  // Large payloads come alone, and are not copied for nothing.
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

/** Frees the memory of a batch that nobody needs any more. */
export function discardEnded(batch: EndedBatch): void {
  for (const buffer of buffersOf(batch)) buffer.transfer(0);
}

/** A run among them, with a copy of its payload, which outlives them. */
export function findEnded(
  { runs, payloads }: EndedBatch,
  { appNumber, id }: RunKey,
): Pick<EndedRun, "run" | "payload"> | null {
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

/** The row with that id, the first of its UUIDs; -1 where there is none. */
function findRow({ rowCount, uuids: { names, bytes } }: ColumnBatch, id: string): number {
  const wanted = uuidBytes(id);
  for (let row = 0; row < rowCount; row++) {
    const at = row * names.length * UUID_BYTES;
    // From the end: ids of one moment begin alike.
    let i = UUID_BYTES - 1;
    while (i >= 0 && bytes[at + i] === wanted[i]) i -= 1;
    if (i === -1) return row;
  }
  return -1;
}

/** The rows of ended runs, and of all that is kept of them. */
export function endedRows({ runs, payloads, parts }: EndedBatch): ColumnInsert[] {
  return [
    { table: "runs", batch: runs },
    ...(payloads ? payloadRows({ rows: payloads, blobs: null }) : []),
    ...(parts ? [{ table: "transcripts", batch: parts, counted: ["bytes"] } as const] : []),
  ];
}
