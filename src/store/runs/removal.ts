import { read, type Session } from "../operation.ts";
import { chunks, type StoredKey } from "../queries.ts";
import { uuidBytes } from "../../kit/ids.ts";
import { PENDING } from "./deliveries.ts";
import { PAYLOAD_SIZE } from "./payloads.ts";
import { isOver } from "./run-columns.ts";

/** Stored records, and the bytes of inputs, results, transcripts and checkpoints. */
type Usage = { readonly runs: number; readonly bytes: number };

/** Counts what a write adds, or with negative numbers what it removes: the last step of its transaction. */
export async function addUsage(
  { db, usageSlot }: Pick<Session, "db" | "usageSlot">,
  { runs = 0, bytes }: Partial<Usage> & Pick<Usage, "bytes">,
): Promise<void> {
  if (runs === 0 && bytes === 0) return;
  await db
    .updateTable("usage")
    .set((eb) => ({ runs: eb("runs", "+", runs), bytes: eb("bytes", "+", bytes) }))
    .where("slot", "=", usageSlot)
    .execute();
}

/** The sum over all connections; takes the same time however much is stored. */
export const readUsage = read(async ({ sql, db }): Promise<Usage> => {
  // Postgres returns a sum of bigints as text.
  const { rows } = await sql<Usage>`
    select cast(sum(runs) as bigint) as runs, cast(sum(bytes) as bigint) as bytes from usage
  `.execute(db);
  return rows[0]!;
});

/** The tables whose key begins with an app's number and a run's id. */
export type KeyedTable = "runs" | "payloads" | "transcripts" | "checkpoints";

/** The stored bytes of a row that count, as SQL. */
export const ROW_SIZES: Readonly<Record<KeyedTable, string>> = {
  runs: "0",
  payloads: PAYLOAD_SIZE,
  transcripts: "length(bytes)",
  checkpoints: "coalesce(length(value), 0)",
};

// Returned amounts are counted as the operation's last step: Postgres locks the row of `usage` from then on.

const CONTENTS = ["payloads", "transcripts", "checkpoints"] as const;

/** Removes the inputs, results, transcripts and checkpoints of runs. */
export async function removeContents(session: Session, keys: readonly StoredKey[]): Promise<Usage> {
  let bytes = 0;
  for (const table of CONTENTS) bytes += (await removeRows(session, table, keys)).bytes;
  return { runs: 0, bytes };
}

/** Removes runs with everything that is stored of them. */
export async function removeRecords(session: Session, keys: readonly StoredKey[]): Promise<Usage> {
  const { bytes } = await removeContents(session, keys);
  for (const [appNumber, group] of Map.groupBy(keys, (key) => key.appNumber))
    for (const ids of chunks(group.map(({ id }) => id)))
      for (const table of ["attempts", "runTags", "runLimits"] as const)
        await session.db
          .deleteFrom(table)
          .where("appNumber", "=", appNumber)
          .where("id", "in", ids)
          .execute();
  await removeFirings(session, keys);
  await removeDeliveries(session, keys);
  return { runs: (await removeRows(session, "runs", keys)).rows, bytes };
}

/** Of runs that were to be removed: how many were, have not ended, and have an open delivery. */
type Removal = Readonly<Record<"removed" | "unfinished" | "delivering", number>>;

/** Removes those of the runs that have ended and have no open delivery, with everything that is stored of them. */
export async function removeEnded(
  session: Session,
  appNumber: number,
  ids: readonly string[],
): Promise<Removal> {
  const { sql, db } = session;
  if (ids.length === 0) return { removed: 0, unfinished: 0, delivering: 0 };
  const { rows } = await sql<{ id: Uint8Array; isOver: unknown; isDelivering: unknown }>`
    select r.id, case when ${isOver(session, "r")} then 1 else 0 end as is_over, case when exists (
      select 1 from deliveries as d where d.id = r.id and d.state = ${sql.lit(PENDING)}
    ) then 1 else 0 end as is_delivering
    from runs as r where r.app_number = ${appNumber} and r.id in (${sql.join(ids.map(uuidBytes))})
  `.execute(db);
  const ended = rows.filter((row) => row.isOver === 1);
  const removable = ended.filter(({ isDelivering }) => isDelivering !== 1);
  const { runs, bytes } = await removeRecords(
    session,
    removable.map(({ id }) => ({ appNumber, id })),
  );
  await addUsage(session, { runs: -runs, bytes: -bytes });
  const delivering = ended.length - removable.length;
  return { removed: runs, unfinished: rows.length - ended.length, delivering };
}

/** Removes what says that schedules have started these runs. */
async function removeFirings({ db }: Session, keys: readonly StoredKey[]): Promise<void> {
  for (const [appNumber, group] of Map.groupBy(keys, (key) => key.appNumber))
    for (const ids of chunks(group.map(({ id }) => id))) {
      const ofApp = db.deleteFrom("firings").where("appNumber", "=", appNumber);
      await ofApp.where("runId", "in", ids).where("runId", "is not", null).execute();
    }
}

/** Removes deliveries and their attempts. */
export async function removeDeliveries({ db }: Session, deliveries: readonly Pick<StoredKey, "id">[]) {
  for (const ids of chunks(deliveries.map(({ id }) => id))) {
    await db.deleteFrom("deliveryAttempts").where("deliveryId", "in", ids).execute();
    await db.deleteFrom("deliveries").where("id", "in", ids).execute();
  }
}

/** Removes the rows of runs in a table. */
export async function removeRows({ db, sql }: Session, table: KeyedTable, keys: readonly StoredKey[]) {
  const removed = { rows: 0, bytes: 0 };
  for (const [appNumber, group] of Map.groupBy(keys, (key) => key.appNumber)) {
    for (const ids of chunks(group.map(({ id }) => id))) {
      const { rows } = await sql<{ size: number }>`
        delete from ${sql.table(table)} where app_number = ${appNumber} and id in (${sql.join(ids)})
        returning ${sql.raw(ROW_SIZES[table])} as size
      `.execute(db);
      removed.rows += rows.length;
      for (const { size } of rows) removed.bytes += size;
    }
  }
  return removed;
}
