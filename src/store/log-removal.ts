import { uuidBytes } from "../kit/ids.ts";
import { FIRST_TAG, logIdAt } from "../model/log-line.ts";
import { read, write } from "./operation.ts";
import type { Session } from "./operation.ts";

/** What a row takes up beside its text: its other columns, three times the key, and the trees they are in. */
export const ROW_BYTES = 150;

/** What the lines of one app take up, about. */
export type LogUse = { readonly appNumber: number; readonly bytes: number };

/** Lines that go, and what they take up. */
export type TrimLogs = {
  /** Null for the app that uses most: whoever prints much pays for it, not whoever prints little. */
  readonly appNumber: number | null;
  /** At least so much, if there is as much. */
  readonly bytes: number;
  /** At most so many lines. */
  readonly limit: number;
};

/** What went of them. */
export type TrimmedLogs = { readonly lineCount: number; readonly freedBytes: number };

type Removed = { readonly appNumber: number; readonly size: number };

/** How much there is of apps' lines, and how the oldest go. */
export const logRemoval = {
  /** What all lines take up, about; it costs the same however many there are. */
  usedBytes: read(async ({ db }): Promise<number> => {
    const row = await db
      .selectFrom("logUsage")
      .select((eb) => eb.fn.sum<number | string | null>("bytes").as("bytes"))
      .executeTakeFirstOrThrow();
    // Postgres gives a sum of bigints as text.
    return Number(row.bytes ?? 0);
  }),

  /** What the lines of each app take up, about. */
  usedByApp: read(
    async ({ db }): Promise<LogUse[]> =>
      await db.selectFrom("logUsage").selectAll().where("bytes", ">", 0).orderBy("appNumber").execute(),
  ),

  /** Removes lines printed before that time, in milliseconds, oldest first; returns how many. */
  expire: write(
    async (session, { before, limit }: { readonly before: number; readonly limit: number }) =>
      await removeOldest(session, limit, logIdAt(BigInt(Math.floor(before)) * 1_000_000n, FIRST_TAG)),
  ),

  /** Removes the oldest lines over all apps; returns how many. */
  removeOldest: write(
    async (session, { limit }: { readonly limit: number }) => await removeOldest(session, limit),
  ),

  /** Removes the oldest lines until so many bytes are free. */
  trim: write(async (session, { appNumber, bytes, limit }: TrimLogs): Promise<TrimmedLogs> => {
    const { sql, db } = session;
    const largest = appNumber === null ? await largestUse(session) : null;
    const ofApp = sql`where app_number = ${appNumber ?? largest?.appNumber ?? null}`;
    const { rows } = await sql<Removed & { id: Uint8Array }>`
      select app_number, id, octet_length(text) as size from log_lines ${ofApp} order by id limit ${limit}
    `.execute(db);
    let count = 0;
    for (let freed = 0; count < rows.length && freed < bytes; count++) freed += rows[count]!.size + ROW_BYTES;
    const last = rows[count - 1];
    if (!last) {
      // A count without lines would have it chosen for ever, and nobody's lines go.
      if (largest) await forgetUse(session, largest);
      return { lineCount: 0, freedBytes: 0 };
    }
    const { rows: removed } = await sql<Removed>`
      delete from log_lines ${ofApp} and id <= ${last.id} returning app_number, octet_length(text) as size
    `.execute(db);
    await countLogs(session, removed, -1);
    const freedBytes = removed.reduce((sum, { size }) => sum + size + ROW_BYTES, 0);
    return { lineCount: removed.length, freedBytes };
  }),
};

async function largestUse({ db }: Session): Promise<LogUse | null> {
  const query = db.selectFrom("logUsage").selectAll().where("bytes", ">", 0).orderBy("bytes", "desc");
  return (await query.limit(1).executeTakeFirst()) ?? null;
}

/** Unless lines were added meanwhile. */
async function forgetUse({ db }: Session, { appNumber, bytes }: LogUse): Promise<void> {
  await db
    .updateTable("logUsage")
    .set({ bytes: 0 })
    .where("appNumber", "=", appNumber)
    .where("bytes", "=", bytes)
    .execute();
}

async function removeOldest(session: Session, limit: number, before?: string): Promise<number> {
  const { sql, db } = session;
  const isOld = before ? sql`where id < ${uuidBytes(before)}` : sql``;
  const { rows } = await sql<Removed>`
    delete from log_lines where (app_number, id) in (
      select app_number, id from log_lines ${isOld} order by id limit ${limit}
    )
    returning app_number, octet_length(text) as size
  `.execute(db);
  await countLogs(session, rows, -1);
  return rows.length;
}

/** Adds lines to what their apps use, or takes them off: the last step of a transaction. Returns what that is then. */
export async function countLogs(
  { db, sql }: Pick<Session, "db" | "sql">,
  lines: readonly Removed[],
  sign: 1 | -1,
): Promise<LogUse[]> {
  const uses: LogUse[] = [];
  const byApp = Map.groupBy(lines, ({ appNumber }) => appNumber);
  // In one order, whoever writes: Postgres locks each row until the transaction ends.
  for (const [appNumber, group] of [...byApp].toSorted(([a], [b]) => a - b)) {
    const bytes = sign * group.reduce((sum, { size }) => sum + size + ROW_BYTES, 0);
    const { rows } = await sql<{ bytes: number }>`
      insert into log_usage (app_number, bytes) values (${appNumber}, ${bytes})
      on conflict (app_number) do update set bytes = log_usage.bytes + ${bytes}
      returning bytes
    `.execute(db);
    uses.push({ appNumber, bytes: Number(rows[0]?.bytes) });
  }
  return uses;
}
