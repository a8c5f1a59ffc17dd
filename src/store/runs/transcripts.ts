import type { RunKey, RunPart, TranscriptPart } from "../../model/run.ts";
import type { Row } from "../schema/schema.ts";
import { uuidBytes } from "../../kit/ids.ts";
import { type ColumnBatch, packColumns } from "../column-batch.ts";
import { packedWrite, read, type Session, write } from "../operation.ts";
import { addUsage } from "./removal.ts";

const SOURCES = {
  numbers: {
    appNumber: (part: RunPart) => part.appNumber,
    firstEvent: (part: RunPart) => part.firstEvent,
    eventCount: (part: RunPart) => part.eventCount,
  },
  texts: {},
  uuids: { id: (part: RunPart) => part.id },
  blobs: { bytes: (part: RunPart) => part.bytes },
};

// Compiles only while every column has a source.
({ ...SOURCES.numbers, ...SOURCES.uuids, ...SOURCES.blobs }) satisfies Record<
  keyof Row<"transcripts">,
  unknown
>;

/** Parts as columns, ready to travel to the database's thread. */
export function packParts(parts: readonly RunPart[]): ColumnBatch {
  return packColumns(parts, SOURCES);
}

/** Stores parts; one that is stored already stays as it is. */
async function insertParts(session: Session, batch: ColumnBatch): Promise<void> {
  const { bytes } = await session.insertColumns("transcripts", batch, ["bytes"]);
  await addUsage(session, { bytes });
}

/** What runs have yielded, part by part. */
export const transcripts = {
  /** Stores parts; one that is stored already stays as it is. */
  write: packedWrite(packParts, insertParts),

  /** The part that holds the event after `after`; if that one is gone, the first later part. */
  next: read(
    async (
      { db },
      { appNumber, id, after }: RunKey & { readonly after: number },
    ): Promise<TranscriptPart | null> => {
      const row = await db
        .selectFrom("transcripts")
        .select(["firstEvent", "eventCount", "bytes"])
        .where((eb) => eb.and({ appNumber, id: uuidBytes(id) }))
        // From the last part that begins no later: without it every part before would be looked at.
        .where("firstEvent", ">=", (eb) =>
          eb.fn.coalesce(
            eb
              .selectFrom("transcripts as t")
              .select((sub) => sub.fn.max("t.firstEvent").as("last"))
              .where((eb) => eb.and({ "t.appNumber": appNumber, "t.id": uuidBytes(id) }))
              .where("t.firstEvent", "<=", after + 1),
            eb.lit(0),
          ),
        )
        .where((eb) => eb(eb("firstEvent", "+", eb.ref("eventCount")), ">", after + 1))
        .orderBy("firstEvent")
        .limit(1)
        .executeTakeFirst();
      return row ?? null;
    },
  ),

  /** The number of the last event that is stored; 0 if none is. */
  last: read(async ({ db }, { appNumber, id }: RunKey): Promise<number> => {
    const row = await db
      .selectFrom("transcripts")
      .select(["firstEvent", "eventCount"])
      .where((eb) => eb.and({ appNumber, id: uuidBytes(id) }))
      .orderBy("firstEvent", "desc")
      .limit(1)
      .executeTakeFirst();
    return row ? row.firstEvent + row.eventCount - 1 : 0;
  }),

  /** Removes the parts whose events are all below `before`. */
  trim: write(
    async (session, { appNumber, id, before }: RunKey & { readonly before: number }): Promise<void> => {
      const limit = Math.min(before, Number.MAX_SAFE_INTEGER);
      const removed = await session.db
        .deleteFrom("transcripts")
        .where((eb) => eb.and({ appNumber, id: uuidBytes(id) }))
        .where("firstEvent", "<", limit)
        .where((eb) => eb(eb("firstEvent", "+", eb.ref("eventCount")), "<=", limit))
        .returning(({ fn }) => fn<number>("length", ["bytes"]).as("size"))
        .execute();
      await addUsage(session, { bytes: -removed.reduce((sum, { size }) => sum + size, 0) });
    },
  ),
};
