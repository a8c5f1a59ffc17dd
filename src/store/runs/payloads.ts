import { type ColumnInsert, heavyRead, read, type Row, type Session, write } from "../operation.ts";
import { all, doNothing, type StoredKey, storedKey } from "../queries.ts";
import type { Payload, PayloadBlob, Run, RunKey } from "../../model/run.ts";
import { type ColumnBatch, type ColumnSources, packColumns } from "../column-batch.ts";

/** A run, and a blob that holds something of it. */
export type RunBlob = RunKey & { readonly hash: string };

const BLOB_SOURCES = {
  numbers: { appNumber: ({ appNumber }) => appNumber },
  texts: { hash: ({ hash }) => hash },
  uuids: { id: ({ id }) => id },
} as const satisfies ColumnSources<RunBlob>;

/** Names of blobs as columns. */
export function packRunBlobs(blobs: readonly RunBlob[]): ColumnBatch {
  return packColumns(blobs, BLOB_SOURCES);
}

/** The blob that a row names. */
export function blobOf(hash: string, bytes: number | null): PayloadBlob {
  return { hash, bytes: bytes ?? 0 };
}

/** Records that a run names a blob. */
export async function nameBlob({ db }: Session, { hash, ...key }: RunBlob): Promise<void> {
  const row = { hash, ...storedKey(key) };
  await db.insertInto("runBlobs").values(row).onConflict(doNothing).execute();
}

/** A run and the blob that it names, as they are stored. */
export type RunBlobName = StoredKey & { readonly hash: string };

type TidyStep = { readonly after: RunBlobName | null; readonly limit: number };

/** Which blobs hold inputs, results and bodies of webhooks. */
export const runBlobs = {
  /** Of these hashes, those that a payload or a delivery still names. */
  named: read(async (session, hashes: readonly string[]): Promise<string[]> => {
    const { sql, db } = session;
    const { rows } = await sql<{ hash: string }>`
      select distinct n.hash from run_blobs as n
      where n.hash in (${sql.join(hashes)}) and ${isNamed(session)}
    `.execute(db);
    return rows.map(({ hash }) => hash);
  }),

  /**
   * Removes rows of runs that no longer name their blob, among the next `limit` after one; returns the last of these,
   * null at the end. Without it, rows of runs with the same bytes would add up.
   */
  tidy: write(async (session, { after, limit }: TidyStep): Promise<RunBlobName | null> => {
    const { sql, db } = session;
    const placeOf = ({ hash, appNumber, id }: RunBlobName) => sql`(${hash}, ${appNumber}, ${id})`;
    const isAfter = after ? sql`(hash, app_number, id) > ${placeOf(after)}` : sql`true`;
    const { rows } = await sql<RunBlobName>`
      select hash, app_number, id from run_blobs where ${isAfter}
      order by hash, app_number, id limit 1 offset ${limit - 1}
    `.execute(db);
    const last = rows[0] ?? null;
    const isBefore = last ? sql`(hash, app_number, id) <= ${placeOf(last)}` : sql`true`;
    await sql`
      delete from run_blobs as n where ${isAfter} and ${isBefore} and not ${isNamed(session)}
    `.execute(db);
    return last;
  }),
};

/** Whether the run of the row `n` still names its blob. */
function isNamed({ sql }: Session) {
  return sql<boolean>`(
    exists (
      select 1 from payloads as p where p.app_number = n.app_number and p.id = n.id
        and (p.input_blob = n.hash or p.result_blob = n.hash)
    )
    or exists (select 1 from deliveries as d where d.id = n.id and d.body_blob = n.hash)
  )`;
}

type RunWithPayload = { readonly run: Run; readonly payload: Payload };

export type PackedPayloads = { readonly rows: ColumnBatch; readonly blobs: ColumnBatch | null };

const SOURCES = {
  numbers: { appNumber: ({ run }) => run.appNumber, isBare: ({ payload }) => (payload.isBare ? 1 : 0) },
  texts: { contentType: ({ payload }) => payload.contentType },
  uuids: { id: ({ run }) => run.id },
  blobs: {
    input: ({ payload }) => payload.input,
    result: ({ payload }) => payload.result,
    sealedSecret: ({ payload }) => payload.sealedSecret,
  },
} as const satisfies ColumnSources<RunWithPayload>;

/** For batches with a large input. Results are stored at the end. */
const WITH_BLOBS = {
  numbers: { ...SOURCES.numbers, inputBytes: ({ payload }) => payload.inputBlob?.bytes ?? null },
  texts: { ...SOURCES.texts, inputBlob: ({ payload }) => payload.inputBlob?.hash ?? null },
  uuids: SOURCES.uuids,
  blobs: SOURCES.blobs,
} as const satisfies ColumnSources<RunWithPayload>;

// Compiles only while every column has a source.
({ ...WITH_BLOBS.numbers, ...WITH_BLOBS.texts, ...WITH_BLOBS.uuids, ...WITH_BLOBS.blobs }) satisfies Record<
  Exclude<keyof Row<"payloads">, "resultBlob" | "resultBytes">,
  unknown
>;

/** The columns of a payload that count as stored bytes. */
const COUNTED = ["input", "result"] as const;
const COUNTED_WITH_BLOBS = [...COUNTED, "inputBytes"] as const;

/** The stored bytes of a payload's row, as SQL. */
export const PAYLOAD_SIZE =
  "coalesce(length(input), 0) + coalesce(length(result), 0) + coalesce(input_bytes, 0) + coalesce(result_bytes, 0)";

/** Payloads as columns, with the blobs that they name. */
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

export type PayloadRow = Pick<Row<"payloads">, (typeof PAYLOAD_COLUMNS)[number]>;

/** The payload that a row holds; an empty one where the columns were joined and there is none. */
export function payloadFromRow(row: { [Name in keyof PayloadRow]: PayloadRow[Name] | null }): Payload {
  const { input, result, contentType, isBare, sealedSecret } = row;
  const payload = { input, result, contentType, isBare: isBare === 1, sealedSecret };
  return {
    ...payload,
    ...(row.inputBlob && { inputBlob: blobOf(row.inputBlob, row.inputBytes) }),
    ...(row.resultBlob && { resultBlob: blobOf(row.resultBlob, row.resultBytes) }),
  };
}

type ResultPart = RunKey & { readonly from: number; readonly bytes: number };

/** Inputs and results of runs, while they are kept. */
export const payloads = {
  find: read(async ({ db }, key: RunKey): Promise<Payload | null> => {
    const query = db.selectFrom("payloads").where(all(storedKey(key)));
    const row = await query.select(PAYLOAD_COLUMNS).executeTakeFirst();
    return row ? payloadFromRow(row) : null;
  }),

  /** Some bytes of a result, counted from 0; null if it is not stored in the row. */
  resultPart: heavyRead(async ({ sql, db }, part: ResultPart): Promise<Uint8Array | null> => {
    const { appNumber, id } = storedKey(part);
    const { rows } = await sql<{ bytes: Uint8Array | null }>`
      select substr(result, cast(${part.from + 1} as integer), cast(${part.bytes} as integer)) as bytes
      from payloads where app_number = ${appNumber} and id = ${id}
    `.execute(db);
    return rows[0]?.bytes ?? null;
  }),
};
