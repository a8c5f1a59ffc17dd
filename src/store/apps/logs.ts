import { all, firstOf } from "../queries.ts";
import { heavyRead, packedWrite, read, type Row, type Session, write } from "../operation.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { FIRST_TAG, LOG_STREAMS, logIdAt, type LogLine, type LogStream } from "../../model/log-line.ts";
import { packColumns } from "../column-batch.ts";

/** A part of an app's log, to be searched in one direction. */
export type LogScan = {
  readonly appNumber: number;
  readonly direction: "forward" | "backward";
  /** Only lines after and before these. */
  readonly after?: string;
  readonly before?: string;
  readonly runId?: string;
  readonly replicaId?: string;
  readonly stream?: LogStream;
  /** Only lines that contain this; case does not matter. */
  readonly search?: string;
  /** How many lines to return and to read at most. */
  readonly limit: number;
  readonly scanLimit: number;
};

/** The result of a scan, in its direction; the next scan continues at `reached`, which is null at the end. */
type LogPage = { readonly lines: LogLine[]; readonly reached: string | null };

const SOURCES = {
  numbers: {
    appNumber: (line: LogLine) => line.appNumber,
    lineNumber: (line: LogLine) => line.lineNumber,
    stream: (line: LogLine) => LOG_STREAMS.indexOf(line.stream),
  },
  texts: { replicaId: (line: LogLine) => line.replicaId, text: (line: LogLine) => line.text },
  uuids: { id: (line: LogLine) => line.id },
  blobs: { runId: ({ runId }: LogLine) => (runId === null ? null : uuidBytes(runId)) },
};

// Compiles only while every column has a source.
({ ...SOURCES.numbers, ...SOURCES.texts, ...SOURCES.uuids, ...SOURCES.blobs }) satisfies Record<
  keyof Row<"logLines">,
  unknown
>;

/** Lines that apps printed. */
export const logs = {
  /** Stores lines; all of them or, if they are stored already, none. Returns what their apps use then. */
  insert: packedWrite(
    (lines: readonly LogLine[]) => ({
      batch: packColumns(lines, SOURCES),
      sizes: lines.map(({ appNumber, text }) => ({ appNumber, size: Buffer.byteLength(text) })),
    }),
    async (session, { batch, sizes }): Promise<LogUse[]> => {
      const { rows } = await session.insertColumns("logLines", batch);
      return rows > 0 ? await countLogs(session, sizes, 1) : [];
    },
  ),

  /** Looks through a part of a log. */
  scan: heavyRead(scan, isSearch),

  /** The latest line of all apps. */
  last: read(async ({ db }): Promise<string | null> => {
    const row = await firstOf(db.selectFrom("logLines").select("id").orderBy("id", "desc").limit(1));
    return row && uuidText(row.id);
  }),

  /** About how many bytes all lines take up; takes the same time however many there are. */
  usedBytes: read(async ({ sql, db }): Promise<number> => {
    // Postgres returns a sum of bigints as text.
    const { rows } = await sql<{ bytes: number }>`
      select cast(coalesce(sum(bytes), 0) as bigint) as bytes from log_usage
    `.execute(db);
    return rows[0]!.bytes;
  }),

  /** About how many bytes the lines of each app take up. */
  usedByApp: read(
    async ({ db }): Promise<LogUse[]> =>
      await db.selectFrom("logUsage").selectAll().where("bytes", ">", 0).orderBy("appNumber").execute(),
  ),

  /** Removes lines printed before that time, in milliseconds, oldest first; returns how many. */
  expire: write(
    async (session, { before, limit }: { readonly before: number; readonly limit: number }) =>
      await removeOldest(session, { limit }, logIdAt(BigInt(Math.floor(before)) * 1_000_000n, FIRST_TAG)),
  ),

  /** Removes the oldest lines over all apps; returns how many. */
  removeOldest: write(removeOldest),

  /** Removes the oldest lines until that many bytes are free, but at most `limit` lines. */
  trim: write(async (session, { appNumber, bytes, limit }: TrimLogs): Promise<TrimmedLogs> => {
    const { sql, db } = session;
    const uses = db.selectFrom("logUsage").selectAll().where("bytes", ">", 0).orderBy("bytes", "desc");
    const largest = appNumber === null ? await firstOf(uses.limit(1)) : null;
    const ofApp = sql`where app_number = ${appNumber ?? largest?.appNumber ?? null}`;
    const { rows } = await sql<Removed & { id: Uint8Array }>`
      select app_number, id, octet_length(text) as size from log_lines ${ofApp} order by id limit ${limit}
    `.execute(db);
    let count = 0;
    for (let freed = 0; count < rows.length && freed < bytes; count++) freed += rows[count]!.size + ROW_BYTES;
    const last = rows[count - 1];
    if (!last) {
      // A count without lines would stay the largest, and nothing would be removed. It stays if lines were added since.
      if (largest) await db.updateTable("logUsage").set({ bytes: 0 }).where(all(largest)).execute();
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

/** Whether lines have to be read one by one, because no index covers the query. */
export function isSearch({ replicaId, stream, search }: Omit<LogScan, "limit" | "scanLimit">): boolean {
  return search !== undefined || stream !== undefined || replicaId !== undefined;
}

type ScannedRow = Omit<Row<"logLines">, "appNumber" | "id"> & {
  readonly lastId: Uint8Array;
  readonly scanned: number;
  readonly id: Uint8Array | null;
};

/** Finds rows by a key alone and counts them, then selects among these the lines that match. */
async function scan(session: Session, query: LogScan): Promise<LogPage> {
  const { sql, db } = session;
  const { appNumber, scanLimit, limit, after, before, runId, replicaId, stream, search } = query;
  const none = sql``;
  const order = sql.raw(query.direction === "forward" ? "asc" : "desc");
  const back = sql.raw(query.direction === "forward" ? "desc" : "asc");
  const { rows } = await sql<ScannedRow>`
    with scanned as materialized (
      select id, run_id, replica_id, line_number, stream, text from log_lines
      where app_number = ${appNumber} ${after ? sql`and id > ${uuidBytes(after)}` : none}
        ${before ? sql`and id < ${uuidBytes(before)}` : none} ${runId ? sql`and run_id = ${uuidBytes(runId)}` : none}
      order by id ${order} limit ${scanLimit}
    ),
    last as (
      select id as last_id, (select count(*) from scanned) as scanned from scanned order by id ${back} limit 1
    ),
    matched as (
      select * from scanned where true ${replicaId ? sql`and replica_id = ${replicaId}` : none}
        ${stream ? sql`and stream = ${LOG_STREAMS.indexOf(stream)}` : none}
        ${search ? sql`and lower(text) like lower(${pattern(search)}) escape '!'` : none}
      order by id ${order} limit ${limit}
    )
    select last.last_id, last.scanned, matched.* from last left join matched on true order by matched.id ${order}
  `.execute(db);
  const lines = rows.flatMap(({ lastId: _lastId, scanned: _scanned, id, ...row }): LogLine[] => {
    if (id === null) return [];
    const runId = row.runId && uuidText(row.runId);
    return [{ ...row, id: uuidText(id), appNumber, runId, stream: LOG_STREAMS[row.stream]! }];
  });
  const [first] = rows;
  if (lines.length === limit) return { lines, reached: lines.at(-1)!.id };
  return { lines, reached: first && first.scanned === scanLimit ? uuidText(first.lastId) : null };
}

/** The pattern for `like` of lines that contain the text literally; in stored lines, NULs were replaced. */
function pattern(search: string): string {
  return `%${search.replaceAll("\0", "\uFFFD").replaceAll(/[!%_]/g, (sign) => `!${sign}`)}%`;
}

/** The size of a row without its text: its other columns, three times the key, and its share of the indexes. */
export const ROW_BYTES = 150;

/** About how many bytes the lines of one app take up. */
export type LogUse = { readonly appNumber: number; readonly bytes: number };

/** Without an app, trims the one that uses most, so that apps which print little lose nothing. */
type TrimLogs = { readonly appNumber: number | null; readonly bytes: number; readonly limit: number };
type TrimmedLogs = { readonly lineCount: number; readonly freedBytes: number };

type Removed = { readonly appNumber: number; readonly size: number };
type Limit = { readonly limit: number };

async function removeOldest(session: Session, { limit }: Limit, before?: string): Promise<number> {
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

/** Adds lines to what their apps use, or subtracts them: the last step of a transaction. Returns the new amounts. */
async function countLogs({ db, sql }: Session, lines: readonly Removed[], sign: 1 | -1): Promise<LogUse[]> {
  const uses: LogUse[] = [];
  const byApp = Map.groupBy(lines, ({ appNumber }) => appNumber);
  // Always in the same order: Postgres locks each row until the transaction ends.
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
