import type { NewDelivery } from "../model/delivery.ts";
import type { Payload } from "../model/payload.ts";
import type { Run } from "../model/run.ts";
import type { TranscriptPart } from "../model/transcript-part.ts";
import type { ColumnBatch } from "./column-batch.ts";
import { packDeliveries } from "./delivery-columns.ts";
import type { ColumnInsert } from "./operation.ts";
import { PAYLOAD_BLOBS, packPayloads } from "./payloads.ts";
import { packRuns } from "./run-columns.ts";
import type { RunKey } from "./run-columns.ts";
import { packParts } from "./transcripts.ts";

/** A run that ended before anything of it was stored. */
export type EndedRun = {
  readonly run: Run;
  readonly payload: Payload | null;
  /** The last part of its transcript. */
  readonly part: TranscriptPart | null;
  readonly delivery: NewDelivery | null;
};

type PackedEnds = {
  readonly runs: ColumnBatch;
  readonly payloads: ColumnBatch | null;
  readonly parts: ColumnBatch | null;
  readonly deliveries: ColumnBatch | null;
};

/** Ended runs as columns, ready to travel to the database's thread. */
export function packEnded(ended: readonly EndedRun[]): PackedEnds {
  const runs: Run[] = [];
  const kept: { run: Run; payload: Payload }[] = [];
  const parts: (RunKey & TranscriptPart)[] = [];
  const deliveries: NewDelivery[] = [];
  for (const { run, payload, part, delivery } of ended) {
    runs.push(run);
    if (payload) kept.push({ run, payload });
    if (part) parts.push({ appNumber: run.appNumber, id: run.id, ...part });
    if (delivery) deliveries.push(delivery);
  }
  return {
    runs: packRuns(runs),
    payloads: kept.length > 0 ? packPayloads(kept) : null,
    parts: parts.length > 0 ? packParts(parts) : null,
    deliveries: deliveries.length > 0 ? packDeliveries(deliveries) : null,
  };
}

/** The rows of ended runs, and of all that is kept of them. */
export function endedRows({ runs, payloads, parts, deliveries }: PackedEnds): ColumnInsert[] {
  return [
    { table: "runs", batch: runs },
    ...(payloads ? [{ table: "payloads", batch: payloads, counted: PAYLOAD_BLOBS } as const] : []),
    ...(parts ? [{ table: "transcripts", batch: parts, counted: ["bytes"] } as const] : []),
    ...(deliveries ? [{ table: "deliveries", batch: deliveries } as const] : []),
  ];
}
