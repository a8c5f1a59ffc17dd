import { uuidBytes } from "../kit/ids.ts";
import type { Payload } from "../model/payload.ts";
import type { Run, RunKey } from "../model/run.ts";
import { packColumns } from "./column-batch.ts";
import type { ColumnBatch, ColumnSources } from "./column-batch.ts";
import { read } from "./operation.ts";
import type { ColumnInsert } from "./operation.ts";
import { blobOf, packRunBlobs } from "./run-blobs.ts";
import type { PayloadsTable } from "./schema.ts";

type RunWithPayload = { readonly run: Run; readonly payload: Payload };

/** Payloads as columns, with the blobs that they name. */
export type PackedPayloads = { readonly rows: ColumnBatch; readonly blobs: ColumnBatch | null };

const SOURCES = {
  numbers: {
    appNumber: ({ run }) => run.appNumber,
    isBare: ({ payload }) => (payload.isBare ? 1 : 0),
  },
  texts: { contentType: ({ payload }) => payload.contentType },
  uuids: { id: ({ run }) => run.id },
  blobs: {
    input: ({ payload }) => payload.input,
    result: ({ payload }) => payload.result,
    sealedSecret: ({ payload }) => payload.sealedSecret,
  },
} as const satisfies ColumnSources<RunWithPayload>;

/** Of batches with large inputs: all others are written as if there were none. Results are stored at the end. */
const WITH_BLOBS = {
  numbers: { ...SOURCES.numbers, inputBytes: ({ payload }) => payload.inputBlob?.bytes ?? null },
  texts: { ...SOURCES.texts, inputBlob: ({ payload }) => payload.inputBlob?.hash ?? null },
  uuids: SOURCES.uuids,
  blobs: SOURCES.blobs,
} as const satisfies ColumnSources<RunWithPayload>;

// Compiles only while every column has a source.
({ ...WITH_BLOBS.numbers, ...WITH_BLOBS.texts, ...WITH_BLOBS.uuids, ...WITH_BLOBS.blobs }) satisfies Record<
  Exclude<keyof PayloadsTable, "resultBlob" | "resultBytes">,
  unknown
>;

/** The columns of a payload that count as stored bytes. */
const COUNTED = ["input", "result"] as const;
const COUNTED_WITH_BLOBS = [...COUNTED, "inputBytes"] as const;

/** The stored bytes of a payload's row, as SQL. */
export const PAYLOAD_SIZE =
  "coalesce(length(input), 0) + coalesce(length(result), 0) + coalesce(input_bytes, 0) + coalesce(result_bytes, 0)";

/** Payloads as columns, ready to travel to the database's thread. */
export function packPayloads(rows: readonly RunWithPayload[]): PackedPayloads {
  const named = rows.flatMap(({ run, payload: { inputBlob } }) =>
    inputBlob ? { ...run, hash: inputBlob.hash } : [],
  );
  if (named.length === 0) return { rows: packColumns(rows, SOURCES), blobs: null };
  return { rows: packColumns(rows, WITH_BLOBS), blobs: packRunBlobs(named) };
}

/** The rows of payloads. */
export function payloadRows({ rows, blobs }: PackedPayloads): ColumnInsert[] {
  if (!blobs) return [{ table: "payloads", batch: rows, counted: COUNTED }];
  return [
    { table: "payloads", batch: rows, counted: COUNTED_WITH_BLOBS },
    { table: "runBlobs", batch: blobs },
  ];
}

/** The columns that make a payload. */
export const PAYLOAD_COLUMNS = [
  "input",
  "result",
  "contentType",
  "isBare",
  "sealedSecret",
  "inputBlob",
  "inputBytes",
  "resultBlob",
  "resultBytes",
] as const;

export type PayloadRow = Pick<PayloadsTable, (typeof PAYLOAD_COLUMNS)[number]>;

/** The payload that a row holds; an empty one where the columns were joined and there is none. */
export function payloadFromRow(row: { [Name in keyof PayloadRow]: PayloadRow[Name] | null }): Payload {
  const { input, result, contentType, isBare, sealedSecret } = row;
  const payload = { input, result, contentType, isBare: isBare === 1, sealedSecret };
  if (!row.inputBlob && !row.resultBlob) return payload;
  return {
    ...payload,
    ...(row.inputBlob && { inputBlob: blobOf(row.inputBlob, row.inputBytes) }),
    ...(row.resultBlob && { resultBlob: blobOf(row.resultBlob, row.resultBytes) }),
  };
}

/** Inputs and results of runs, while they are kept. */
export const payloads = {
  find: read(async ({ db }, { appNumber, id }: RunKey): Promise<Payload | null> => {
    const row = await db
      .selectFrom("payloads")
      .select(PAYLOAD_COLUMNS)
      .where("appNumber", "=", appNumber)
      .where("id", "=", uuidBytes(id))
      .executeTakeFirst();
    return row ? payloadFromRow(row) : null;
  }),
};
