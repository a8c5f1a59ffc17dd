import { all } from "../queries.ts";
import type { Row } from "../schema/schema.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { FIRST_TAG, LOG_STREAMS, logIdAt, type LogLine, type LogStream } from "../../model/log-line.ts";
import { packColumns } from "../column-batch.ts";
import { heavyRead, packedWrite, read, type Session, write } from "../operation.ts";

/** A part of an app's log, to be looked through in one direction. */
export type LogScan = {
  readonly appNumber: number;
  readonly direction: "forward" | "backward";
  /** Only lines after this one. */
  readonly after?: string;
  /** Only lines before this one. */
  readonly before?: string;
  readonly runId?: string;
  readonly replicaId?: string;
  readonly stream?: LogStream;
  /** Only lines that contain this; case does not matter. */
  readonly search?: string;
  /** How many lines at most are given. */
  readonly limit: number;
  /** How many lines at most are looked at. */
  readonly scanLimit: number;
};

/** What a scan found, in its direction; it goes on at `reached`, which is null when there is no more. */
type LogPage = { readonly lines: LogLine[]; readonly reached: string | null };

const SOURCES = {
  numbers: {
    appNumber: (line: LogLine) => line.appNumber,
    lineNumber: (line: LogLine) => line.lineNumber,
    stream: (line: LogLine) => LOG_STREAMS.indexOf(line.stream),
  },
  texts: {
    replicaId: (line: LogLine) => line.replicaId,
    text: (line: LogLine) => line.text,
  },
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
    const row = await db
      .selectFrom("logLines")
      .select("id")
      .orderBy("id", "desc")
      .limit(1)
      .executeTakeFirst();
    return row ? uuidText(row.id) : null;
  }),

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

/** Whether lines are looked at one by one, for something that no key finds. */
export function isSearch({ replicaId, stream, search }: Omit<LogScan, "limit" | "scanLimit">): boolean {
  return search !== undefined || stream !== undefined || replicaId !== undefined;
}

type ScannedRow = {
  readonly lastId: Uint8Array;
  readonly scanned: number;
  readonly id: Uint8Array | null;
  readonly runId: Uint8Array | null;
  readonly replicaId: string;
  readonly lineNumber: number;
  readonly stream: number;
  readonly text: string;
};

/** What is looked at comes by a key alone, and is counted; what is given is chosen among that. */
async function scan(session: Session, query: LogScan): Promise<LogPage> {
  const { sql, db } = session;
  const { appNumber, scanLimit, limit } = query;
  const order = sql.raw(query.direction === "forward" ? "asc" : "desc");
  const back = sql.raw(query.direction === "forward" ? "desc" : "asc");
  const { rows } = await sql<ScannedRow>`
    with scanned as materialized (
      select id, run_id, replica_id, line_number, stream, text from log_lines
      where ${sql.join(keyConditions(session, query), sql` and `)}
      order by id ${order} limit ${scanLimit}
    ),
    last as (
      select id as last_id, (select count(*) from scanned) as scanned from scanned order by id ${back} limit 1
    ),
    matched as (
      select * from scanned where ${sql.join(choices(session, query), sql` and `)} order by id ${order} limit ${limit}
    )
    select last.last_id, last.scanned, matched.* from last left join matched on true order by matched.id ${order}
  `.execute(db);
  const lines = rows.flatMap((row) => (row.id === null ? [] : lineOf(appNumber, row.id, row)));
  const [first] = rows;
  if (lines.length === limit) return { lines, reached: lines.at(-1)!.id };
  return { lines, reached: first && first.scanned === scanLimit ? uuidText(first.lastId) : null };
}

function lineOf(appNumber: number, id: Uint8Array, row: ScannedRow): LogLine {
  const { runId, replicaId, lineNumber, stream, text } = row;
  return {
    id: uuidText(id),
    appNumber,
    runId: runId && uuidText(runId),
    replicaId,
    lineNumber,
    stream: LOG_STREAMS[stream]!,
    text,
  };
}

function keyConditions({ sql }: Session, { appNumber, after, before, runId }: LogScan) {
  return [
    sql<boolean>`app_number = ${appNumber}`,
    ...(after ? [sql<boolean>`id > ${uuidBytes(after)}`] : []),
    ...(before ? [sql<boolean>`id < ${uuidBytes(before)}`] : []),
    ...(runId ? [sql<boolean>`run_id = ${uuidBytes(runId)}`] : []),
  ];
}

function choices({ sql }: Session, { replicaId, stream, search }: LogScan) {
  return [
    sql<boolean>`1 = 1`,
    ...(replicaId ? [sql<boolean>`replica_id = ${replicaId}`] : []),
    ...(stream ? [sql<boolean>`stream = ${LOG_STREAMS.indexOf(stream)}`] : []),
    ...(search ? [sql<boolean>`lower(text) like lower(${pattern(search)}) escape '!'`] : []),
  ];
}

/** As lines are stored: no sign of it has a meaning, and a NUL was replaced. */
function pattern(search: string): string {
  return `%${search.replaceAll("\0", "\uFFFD").replaceAll(/[!%_]/g, (sign) => `!${sign}`)}%`;
}

/** What a row takes up beside its text: its other columns, three times the key, and the trees they are in. */
export const ROW_BYTES = 150;

/** What the lines of one app take up, about. */
export type LogUse = { readonly appNumber: number; readonly bytes: number };

/** Lines that go, and what they take up. */
type TrimLogs = {
  /** Null for the app that uses most: whoever prints much pays for it, not whoever prints little. */
  readonly appNumber: number | null;
  /** At least so much, if there is as much. */
  readonly bytes: number;
  /** At most so many lines. */
  readonly limit: number;
};

/** What went of them. */
type TrimmedLogs = { readonly lineCount: number; readonly freedBytes: number };

type Removed = { readonly appNumber: number; readonly size: number };

async function largestUse({ db }: Session): Promise<LogUse | null> {
  const query = db.selectFrom("logUsage").selectAll().where("bytes", ">", 0).orderBy("bytes", "desc");
  return (await query.limit(1).executeTakeFirst()) ?? null;
}

/** Unless lines were added meanwhile. */
async function forgetUse({ db }: Session, { appNumber, bytes }: LogUse): Promise<void> {
  await db.updateTable("logUsage").set({ bytes: 0 }).where(all({ appNumber, bytes })).execute();
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
async function countLogs(
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
