import { uuidBytes } from "../kit/ids.ts";
import type { PayloadBlob } from "../model/payload.ts";
import type { RunKey } from "../model/run.ts";
import { packColumns } from "./column-batch.ts";
import type { ColumnBatch, ColumnSources } from "./column-batch.ts";
import { read, write } from "./operation.ts";
import type { Session } from "./operation.ts";

/** A run, and a blob that holds something of it. */
export type RunBlob = RunKey & { readonly hash: string };

const SOURCES = {
  numbers: { appNumber: ({ appNumber }) => appNumber },
  texts: { hash: ({ hash }) => hash },
  uuids: { id: ({ id }) => id },
} as const satisfies ColumnSources<RunBlob>;

/** Names of blobs as columns, ready to travel to the database's thread. */
export function packRunBlobs(blobs: readonly RunBlob[]): ColumnBatch {
  return packColumns(blobs, SOURCES);
}

/** What a row says of a blob. */
export function blobOf(hash: string, bytes: number | null): PayloadBlob {
  return { hash, bytes: bytes ?? 0 };
}

/** Writes down that a run names a blob. */
export async function nameBlob({ db }: Session, { hash, appNumber, id }: RunBlob): Promise<void> {
  await db
    .insertInto("runBlobs")
    .values({ hash, appNumber, id: uuidBytes(id) })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** A run, by the bytes of its id, and the blob that it names. */
export type RunBlobName = { readonly hash: string; readonly appNumber: number; readonly id: Uint8Array };

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
   * Forgets runs that name their blob no longer, among so many after that one; gives the last it looked at, null at the
   * end. The same bytes may be sent for ever, and each run that had them would be remembered.
   */
  tidy: write(
    async (
      session,
      { after, limit }: { readonly after: RunBlobName | null; readonly limit: number },
    ): Promise<RunBlobName | null> => {
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
    },
  ),
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
