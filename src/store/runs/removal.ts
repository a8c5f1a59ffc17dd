import { read } from "../operation.ts";
import type { Session } from "../operation.ts";
import { chunks } from "../queries.ts";
import { PAYLOAD_SIZE } from "./payloads.ts";

/** What is stored: records, and the bytes of inputs, results and transcripts. */
type Usage = { readonly runs: number; readonly bytes: number };

/** Counts what a write adds, or with negative numbers what it removes: the last step of its transaction. */
export async function addUsage(
  { db, usageSlot }: Pick<Session, "db" | "usageSlot">,
  { runs, bytes }: Usage,
): Promise<void> {
  if (runs === 0 && bytes === 0) return;
  await db
    .updateTable("usage")
    .set((eb) => ({ runs: eb("runs", "+", runs), bytes: eb("bytes", "+", bytes) }))
    .where("slot", "=", usageSlot)
    .execute();
}

/** The sum over all connections; it costs the same however much is stored. */
export const readUsage = read(async ({ db }): Promise<Usage> => {
  const { runs, bytes } = await db
    .selectFrom("usage")
    .select((eb) => [
      eb.fn.sum<number | string>("runs").as("runs"),
      eb.fn.sum<number | string>("bytes").as("bytes"),
    ])
    .executeTakeFirstOrThrow();
  // Postgres gives a sum of bigints as text.
  return { runs: Number(runs), bytes: Number(bytes) };
});

/** Runs of any apps, by the bytes of their ids. */
export type StoredKey = { readonly appNumber: number; readonly id: Uint8Array };

// Each returns what it has freed. Counting that is left to the operation, as its last step: on Postgres the row
// that counts is locked from then on.

/** Removes the transcripts of runs. */
export async function removeTranscripts({ db }: Session, keys: readonly StoredKey[]): Promise<number> {
  let bytes = 0;
  for (const { appNumber, ids } of byApp(keys)) {
    const removed = await db
      .deleteFrom("transcripts")
      .where("appNumber", "=", appNumber)
      .where("id", "in", ids)
      .returning(({ fn }) => fn<number>("length", ["bytes"]).as("size"))
      .execute();
    for (const { size } of removed) bytes += size;
  }
  return bytes;
}

/** Removes the inputs and results of runs. */
async function removePayloads({ db, sql }: Session, keys: readonly StoredKey[]): Promise<number> {
  let bytes = 0;
  for (const { appNumber, ids } of byApp(keys)) {
    const removed = await db
      .deleteFrom("payloads")
      .where("appNumber", "=", appNumber)
      .where("id", "in", ids)
      .returning(sql<number>`${sql.raw(PAYLOAD_SIZE)}`.as("size"))
      .execute();
    for (const { size } of removed) bytes += size;
  }
  return bytes;
}

/** Removes the inputs, results and transcripts of runs. */
export async function removeContents(session: Session, keys: readonly StoredKey[]): Promise<Usage> {
  const payloads = await removePayloads(session, keys);
  return { runs: 0, bytes: payloads + (await removeTranscripts(session, keys)) };
}

/** Removes runs with all that is stored of them. */
export async function removeRecords(session: Session, keys: readonly StoredKey[]): Promise<Usage> {
  const { bytes } = await removeContents(session, keys);
  await removeDeliveries(
    session,
    keys.map(({ id }) => id),
  );
  let runs = 0;
  for (const { appNumber, ids } of byApp(keys)) {
    const { numDeletedRows } = await session.db
      .deleteFrom("runs")
      .where("appNumber", "=", appNumber)
      .where("id", "in", ids)
      .executeTakeFirst();
    runs += Number(numDeletedRows);
  }
  return { runs, bytes };
}

/** Removes deliveries with the record of their attempts. */
export async function removeDeliveries({ db }: Session, ids: readonly Uint8Array[]): Promise<void> {
  for (const some of chunks(ids)) {
    await db.deleteFrom("deliveryAttempts").where("deliveryId", "in", some).execute();
    await db.deleteFrom("deliveries").where("id", "in", some).execute();
  }
}

function byApp(keys: readonly StoredKey[]): { appNumber: number; ids: Uint8Array[] }[] {
  const groups = Map.groupBy(keys, ({ appNumber }) => appNumber);
  return [...groups].flatMap(([appNumber, group]) =>
    chunks(group.map(({ id }) => id)).map((ids) => ({ appNumber, ids })),
  );
}
