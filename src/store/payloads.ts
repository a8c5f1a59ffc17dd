import { uuidBytes } from "../kit/ids.ts";
import type { Payload } from "../model/payload.ts";
import type { Run, RunKey } from "../model/run.ts";
import { packColumns } from "./column-batch.ts";
import type { ColumnBatch, ColumnSources } from "./column-batch.ts";
import { read } from "./operation.ts";
import type { PayloadsTable } from "./schema.ts";

type RunWithPayload = { readonly run: Run; readonly payload: Payload };

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

// Compiles only while every column has a source.
({ ...SOURCES.numbers, ...SOURCES.texts, ...SOURCES.uuids, ...SOURCES.blobs }) satisfies Record<
  keyof PayloadsTable,
  unknown
>;

/** The columns of a payload that count as stored bytes. */
export const PAYLOAD_BLOBS = ["input", "result"] as const;

/** Payloads as columns, ready to travel to the database's thread. */
export function packPayloads(rows: readonly RunWithPayload[]): ColumnBatch {
  return packColumns(rows, SOURCES);
}

/** The columns that make a payload. */
export const PAYLOAD_COLUMNS = ["input", "result", "contentType", "isBare", "sealedSecret"] as const;

export type PayloadRow = Pick<PayloadsTable, (typeof PAYLOAD_COLUMNS)[number]>;

/** The payload that a row holds; an empty one where the columns were joined and there is none. */
export function payloadFromRow(row: { [Name in keyof PayloadRow]: PayloadRow[Name] | null }): Payload {
  const { input, result, contentType, isBare, sealedSecret } = row;
  return { input, result, contentType, isBare: isBare === 1, sealedSecret };
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
