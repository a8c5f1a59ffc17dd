import { uuidText } from "../../kit/ids.ts";
import { storedKey } from "../queries.ts";
import type { NewDelivery } from "../../model/delivery.ts";
import { requireMove } from "../../model/run.ts";
import type { PayloadBlob, Run, RunKey, TranscriptPart } from "../../model/run.ts";
import { bytesIn, type ColumnBatch, packColumns, pickRows, uuidAt } from "../column-batch.ts";
import { packDeliveries } from "./deliveries.ts";
import type { Session } from "../operation.ts";
import { addUsage, removeContents } from "./removal.ts";
import { packRunBlobs } from "./payloads.ts";
import { codeBefore, finalSources } from "./run-columns.ts";
import { packParts } from "./transcripts.ts";
import { addUses, rollUp, USES } from "../usage/roll-up.ts";

type Result = {
  readonly bytes: Uint8Array | null;
  /** Contains them instead. */
  readonly blob?: PayloadBlob | undefined;
  readonly contentType: string | null;
};

type FinalRun = {
  /** Its final record; columns that were fixed when it was accepted stay unchanged. */
  readonly run: Run;
  /** Null: nothing is kept, and the input and the transcript are removed. */
  readonly result: Result | null;
  /** For a run that was accepted without it. */
  readonly input?: Uint8Array | null;
  /** The last part of its transcript. */
  readonly part: TranscriptPart | null;
  readonly delivery: NewDelivery | null;
};

/** The end of a run that its claimer holds. */
export type FinishedClaim = FinalRun & { readonly fence: number; readonly owner: string };

/** The end of a run that nothing has claimed. */
export type QueuedEnd = Pick<FinalRun, "run" | "result"> & { readonly delivery?: NewDelivery | null };

/** Rows that only some runs of a batch have. */
export type Sparse = { readonly batch: ColumnBatch; readonly indexes: readonly number[] };

type PackedFinals = {
  readonly runs: ColumnBatch;
  /** What is added to the sums of days. */
  readonly uses: ColumnBatch;
  readonly results: Sparse | null;
  readonly inputs: Sparse | null;
  /** Runs without a stored payload. */
  readonly bare: readonly { readonly index: number; readonly key: RunKey }[];
  readonly parts: Sparse | null;
  readonly deliveries: Sparse | null;
  /** The blobs of results and bodies. Extra rows are harmless. */
  readonly blobs: ColumnBatch | null;
};

const FINAL = finalSources<FinalRun>();
const FINISHED = {
  numbers: { ...FINAL.numbers, fence: ({ fence }: FinishedClaim) => fence },
  texts: { ...FINAL.texts, owner: ({ owner }: FinishedClaim) => owner },
  uuids: FINAL.uuids,
};
const RESULT = {
  numbers: { appNumber: ({ run }: FinalRun) => run.appNumber },
  texts: { contentType: ({ result }: FinalRun) => result?.contentType ?? null },
  uuids: { id: ({ run }: FinalRun) => run.id },
  blobs: { result: ({ result }: FinalRun) => result?.bytes ?? null },
};
/** For batches with a large result. */
const RESULT_WITH_BLOBS = {
  ...RESULT,
  numbers: { ...RESULT.numbers, resultBytes: ({ result }: FinalRun) => result?.blob?.bytes ?? null },
  texts: { ...RESULT.texts, resultBlob: ({ result }: FinalRun) => result?.blob?.hash ?? null },
};
const INPUT = {
  numbers: RESULT.numbers,
  texts: {},
  uuids: RESULT.uuids,
  blobs: { input: ({ input }: FinalRun) => input ?? null },
};

const KEY = ["appNumber", "id"] as const;

export function packFinished(finished: readonly FinishedClaim[]): PackedFinals {
  for (const { run } of finished) requireMove("finish", run.state);
  return { runs: packColumns(finished, FINISHED), ...packKept(finished) };
}

/** Ends the runs that are still held; returns their ids. */
export async function finishClaims(session: Session, packed: PackedFinals): Promise<string[]> {
  const passed = await session.updateColumns("runs", packed.runs, {
    match: [...KEY, "fence", "owner"],
    where: { state: codeBefore("finish") },
    set: { owner: null },
  });
  await writeKept(session, packed, passed);
  const { names, bytes } = packed.runs.uuids;
  // The ids are the first column of UUIDs.
  return passed.map((index) => uuidText(uuidAt(bytes, index * names.length)));
}

export function packQueuedEnds(ends: readonly QueuedEnd[]): PackedFinals {
  for (const { run } of ends) requireMove("drop", run.state);
  const finals = ends.map(({ delivery = null, ...end }) => ({ ...end, part: null, delivery }));
  return { runs: packColumns(finals, FINAL), ...packKept(finals) };
}

/** Ends the runs that are still queued; returns the indexes of those. */
export async function endQueued(session: Session, packed: PackedFinals): Promise<readonly number[]> {
  const change = { match: KEY, where: { state: codeBefore("drop") } };
  const passed = await session.updateColumns("runs", packed.runs, change);
  await writeKept(session, packed, passed);
  return passed;
}

function packKept(finals: readonly FinalRun[]): Omit<PackedFinals, "runs"> {
  const blobs = finals.flatMap(({ run, result, delivery }) =>
    [result?.blob, delivery?.bodyBlob].flatMap((blob) => (blob ? { ...keyOf(run), hash: blob.hash } : [])),
  );
  const results = finals.map((final) => final.result && final);
  const hasBlob = finals.some(({ result }) => result?.blob);
  const inputs = finals.map((final) => (final.result && final.input ? final : null));
  const parts = finals.map(({ run, part }) => part && { ...keyOf(run), ...part });
  const deliveries = finals.map(({ delivery }) => delivery);
  return {
    uses: packColumns(finals, USES),
    results: packSparse(results, (rows) => packColumns(rows, hasBlob ? RESULT_WITH_BLOBS : RESULT)),
    inputs: packSparse(inputs, (rows) => packColumns(rows, INPUT)),
    bare: finals.flatMap(({ run, result }, index) => (result ? [] : { index, key: keyOf(run) })),
    parts: packSparse(parts, packParts),
    deliveries: packSparse(deliveries, packDeliveries),
    blobs: blobs.length === 0 ? null : packRunBlobs(blobs),
  };
}

function keyOf({ appNumber, id }: Run): RunKey {
  return { appNumber, id };
}

/** Packs the rows that there are, with the index of each. */
export function packSparse<Row>(all: readonly (Row | null)[], pack: (rows: readonly Row[]) => ColumnBatch) {
  const rows = all.filter((row) => row !== null);
  const indexes = all.flatMap((row, index) => (row === null ? [] : index));
  return rows.length === 0 ? null : { batch: pack(rows), indexes };
}

async function writeKept(session: Session, packed: PackedFinals, passed: readonly number[]): Promise<void> {
  if (passed.length === 0) return;
  const { rowCount } = packed.runs;
  const isPassed = passed.length < rowCount ? new Set(passed) : null;
  const passedOf = ({ batch, indexes }: Sparse): ColumnBatch => {
    if (!isPassed) return batch;
    return pickRows(
      batch,
      indexes.flatMap((index, row) => (isPassed.has(index) ? row : [])),
    );
  };

  let bytes = 0;
  if (packed.results) {
    const results = passedOf(packed.results);
    // The caller's secret is stored only in the delivery from now on.
    const change = { match: KEY, set: { sealedSecret: null } };
    const stored = await session.updateColumns("payloads", results, change);
    const counted = results.numbers.names.includes("resultBytes") ? ["result", "resultBytes"] : ["result"];
    bytes += bytesIn(results, counted, stored);
  }
  if (packed.inputs) {
    const inputs = passedOf(packed.inputs);
    const stored = await session.updateColumns("payloads", inputs, { match: KEY });
    bytes += bytesIn(inputs, ["input"], stored);
  }
  const bare = packed.bare.filter(({ index }) => !isPassed || isPassed.has(index));
  const contents = bare.map(({ key }) => storedKey(key));
  bytes -= (await removeContents(session, contents)).bytes;
  if (packed.parts)
    bytes += (await session.insertColumns("transcripts", passedOf(packed.parts), ["bytes"])).bytes;
  if (packed.deliveries) await session.insertColumns("deliveries", passedOf(packed.deliveries));
  if (packed.blobs) await session.insertColumns("runBlobs", packed.blobs);
  await addUses(session, rollUp(packed.uses, passed));
  await addUsage(session, { bytes });
}
