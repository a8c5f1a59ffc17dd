import type { RunKey, RunPart, TranscriptPart } from "../../model/run.ts";
import { packedWrite, read, type Row, write } from "../operation.ts";
import { uuidBytes } from "../../kit/ids.ts";
import { type ColumnBatch, type ColumnSources, packColumns } from "../column-batch.ts";
import { all, storedKey } from "../queries.ts";
import { addUsage } from "./removal.ts";

type NextPart = RunKey & { readonly after: number };

const SOURCES = {
  numbers: {
    appNumber: (part) => part.appNumber,
    firstEvent: (part) => part.firstEvent,
    eventCount: (part) => part.eventCount,
  },
  texts: {},
  uuids: { id: (part) => part.id },
  blobs: { bytes: (part) => part.bytes },
} as const satisfies ColumnSources<RunPart>;

// Compiles only while every column has a source.
({ ...SOURCES.numbers, ...SOURCES.uuids, ...SOURCES.blobs }) satisfies Record<
  keyof Row<"transcripts">,
  unknown
>;

/** Parts as columns, ready to travel to the database's thread. */
export function packParts(parts: readonly RunPart[]): ColumnBatch {
  return packColumns(parts, SOURCES);
}

/** What runs have yielded, part by part. */
export const transcripts = {
  /** Stores parts; one that is stored already stays as it is. */
  write: packedWrite(packParts, async (session, batch): Promise<void> => {
    const { bytes } = await session.insertColumns("transcripts", batch, ["bytes"]);
    await addUsage(session, { bytes });
  }),

  /** The part that holds the event after `after`; if that one is gone, the first later part. */
  next: read(async ({ sql, db }, { after, ...key }: NextPart): Promise<TranscriptPart | null> => {
    const isOfRun = sql`app_number = ${key.appNumber} and id = ${uuidBytes(key.id)}`;
    // From the last part that begins no later: without it every part before would be looked at.
    const { rows } = await sql<TranscriptPart>`
      select first_event, event_count, bytes from transcripts
      where ${isOfRun} and first_event + event_count > ${after + 1} and first_event >= coalesce(
        (select max(first_event) from transcripts as t where ${isOfRun} and first_event <= ${after + 1}), 0
      )
      order by first_event limit 1
    `.execute(db);
    return rows[0] ?? null;
  }),

  /** The number of the last event that is stored; 0 if none is. */
  last: read(async ({ db }, key: RunKey): Promise<number> => {
    const row = await db
      .selectFrom("transcripts")
      .select(["firstEvent", "eventCount"])
      .where(all(storedKey(key)))
      .orderBy("firstEvent", "desc")
      .limit(1)
      .executeTakeFirst();
    return row ? row.firstEvent + row.eventCount - 1 : 0;
  }),

  /** Removes the parts whose events are all below `before`. */
  trim: write(async (session, { before, ...key }: RunKey & { readonly before: number }): Promise<void> => {
    const { sql, db } = session;
    const limit = Math.min(before, Number.MAX_SAFE_INTEGER);
    const { rows } = await sql<{ size: number }>`
      delete from transcripts where app_number = ${key.appNumber} and id = ${uuidBytes(key.id)}
        and first_event < ${limit} and first_event + event_count <= ${limit}
      returning length(bytes) as size
    `.execute(db);
    await addUsage(session, { bytes: -rows.reduce((sum, { size }) => sum + size, 0) });
  }),
};
