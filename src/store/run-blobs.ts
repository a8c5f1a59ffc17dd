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

/** Which blobs hold inputs, results and bodies of webhooks. */
export const runBlobs = {
  /** Of these hashes, those that a payload or a delivery still names. */
  named: read(async ({ sql, db }, hashes: readonly string[]): Promise<string[]> => {
    const { rows } = await sql<{ hash: string }>`
      select distinct n.hash from run_blobs as n where n.hash in (${sql.join(hashes)}) and (
        exists (
          select 1 from payloads as p where p.app_number = n.app_number and p.id = n.id
            and (p.input_blob = n.hash or p.result_blob = n.hash)
        )
        or exists (select 1 from deliveries as d where d.id = n.id and d.body_blob = n.hash)
      )
    `.execute(db);
    return rows.map(({ hash }) => hash);
  }),

  /** Forgets who named blobs that are gone. */
  forget: write(async ({ db }, hashes: readonly string[]): Promise<void> => {
    await db.deleteFrom("runBlobs").where("hash", "in", hashes).execute();
  }),
};
