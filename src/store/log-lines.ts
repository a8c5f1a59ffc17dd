import { uuidBytes, uuidText } from "../kit/ids.ts";
import { LOG_STREAMS } from "../model/log-line.ts";
import type { LogLine, LogStream } from "../model/log-line.ts";
import { packColumns } from "./column-batch.ts";
import { countLogs, logRemoval } from "./log-removal.ts";
import type { LogUse } from "./log-removal.ts";
import { heavyRead, packedWrite, read } from "./operation.ts";
import type { Session } from "./operation.ts";
import type { LogLinesTable } from "./schema.ts";

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
export type LogPage = { readonly lines: LogLine[]; readonly reached: string | null };

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
  keyof LogLinesTable,
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

  ...logRemoval,
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
