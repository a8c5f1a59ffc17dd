import type { RawBuilder } from "kysely";
import { uuidText } from "../../kit/ids.ts";
import { UUID_BYTES } from "../column-batch.ts";
import type { Session } from "../operation.ts";
import { isDue, lineIn, nameOfState, placeInQueue } from "./run-columns.ts";

// Lines of an app take turns: each has one run at a time claimed, or as many as its weight says. Statements go from line to line
// in the index, never through the runs of one.

/** Whose turn it is among the lines of an app. */
export type Turn = {
  /** The line that had its turn last. */
  readonly line: string;
  /** How many runs of that turn are used; 0: all. */
  readonly used: number;
  /** No other line had runs: looking for others first would be a statement in vain. */
  readonly isAlone: boolean;
};

/** Of accounts whose weight is not 1. */
export type Weights = Readonly<Record<string, number>>;

export type TurnsQuery = {
  readonly appNumber: number;
  readonly turn?: Turn | null;
  readonly weights?: Weights;
};

type PickQuery = TurnsQuery & { readonly limit: number; readonly maxBytes: number };

/** A run whose turn it is. */
export type PickedRun = { readonly id: Uint8Array; readonly concurrencyKey: string | null };

type Picks = { readonly picks: readonly PickedRun[]; readonly hasMore: boolean; readonly turn: Turn | null };

type PickRow = PickedRun & { readonly size: number | null };

/** Lines that take turns in one claim, at most. */
const MAX_LINES = 64;

/** The runs whose turn it is, as many as fit; the first one fits whatever its size. Postgres locks them. */
export async function pickTurns(session: Session, query: PickQuery): Promise<Picks> {
  if (query.turn?.isAlone ?? true) {
    const picks = await pickAlone(session, query);
    if (picks) return picks;
  }
  return await pickInTurn(session, query);
}

/** The first runs of the only line; null if there are several. */
async function pickAlone(session: Session, query: PickQuery): Promise<Picks | null> {
  const { sql, db } = session;
  const [line, ofApp] = [lineIn(session), isDueIn(session, query.appNumber)];
  // One more than wanted, to see whether there are more.
  const { rows } = await sql<PickRow & { line: string; last: string }>`
    select runs.id, runs.concurrency_key, ${line} as line, ${sizeOf(session)} as size,
      (select ${line} from runs where ${ofApp} order by ${line} desc limit 1) as last
    from runs ${withPayload(session)} where ${ofApp}
    order by ${line}, ${placeInQueue(session)} limit ${query.limit + 1} ${session.skipLocked("runs")}
  `.execute(db);
  const [first] = rows;
  const { turn: before = null, weights = {} } = query;
  if (!first) return { picks: [], hasMore: false, turn: before };
  if (first.line !== first.last) return null;
  const count = fitting(rows, query);
  const weight = weightOf(weights, first.line);
  const used = (usedOf(before, first.line, weight) + count) % weight;
  const turn = { line: first.line, used, isAlone: true };
  return { picks: rows.slice(0, count), hasMore: count < rows.length, turn };
}

/** The runs of several lines, in their turns. */
async function pickInTurn(session: Session, query: PickQuery): Promise<Picks> {
  const { appNumber, limit, turn = null, weights = {} } = query;
  // Never one alone: whether there is another decides how the next claim begins.
  const most = Math.max(2, Math.min(limit, MAX_LINES));
  const names = await linesInTurn(session, { appNumber, turn, limit: most });
  if (names.length === 0) return { picks: [], hasMore: false, turn };
  const weighed = names.map((name) => {
    const weight = weightOf(weights, name);
    return { name, weight, used: usedOf(turn, name, weight) };
  });
  // Several rounds only of lines that are all there are: further ones would have their turn first.
  const total = weighed.reduce((sum, { weight }) => sum + weight, 0);
  const rounds = names.length < most ? Math.ceil(limit / total) + 1 : 1;
  const lines = weighed.map((line) => ({
    ...line,
    quota: Math.min(limit, line.weight * rounds - line.used),
  }));
  const rows = await firstOfLines(session, appNumber, lines);
  const roundOf = ({ line, nth }: LinePick): number => {
    const { used, weight } = lines[line]!;
    return Math.floor((nth + used) / weight);
  };
  const inTurn = rows.toSorted((a, b) => roundOf(a) - roundOf(b) || a.line - b.line || a.nth - b.nth);
  const picks = inTurn.slice(0, fitting(inTurn, query));
  const last = picks.at(-1);
  // Others have locked them all: the next look finds what is left.
  if (!last) return { picks, hasMore: false, turn };
  const isFull = (quota: number, line: number): boolean =>
    rows.filter((row) => row.line === line).length === quota;
  const { name, used, weight } = lines[last.line]!;
  return {
    picks,
    hasMore:
      picks.length < rows.length ||
      names.length === most ||
      lines.some(({ quota }, line) => isFull(quota, line)),
    turn: { line: name, used: (last.nth + 1 + used) % weight, isAlone: names.length === 1 },
  };
}

/** A run with the place of its line in a list, and its own place in its line, from 0. */
type LinePick = PickRow & { readonly line: number; readonly nth: number };

type LinePlace = { readonly line: number; readonly nth: number; readonly place: Uint8Array };

/** The first runs of each line, as many as its quota. */
async function firstOfLines(
  session: Session,
  appNumber: number,
  lines: readonly { readonly name: string; readonly quota: number }[],
): Promise<LinePick[]> {
  const { sql, db } = session;
  const place = placeInQueue(session);
  const isOf = (name: string) =>
    sql`${isDueIn(session, appNumber)} and ${lineIn(session)} = ${sql.ref(name)}`;
  const values = lines.map(
    ({ name, quota }, i) => sql`(${whole(session, i)}, ${text(session, name)}, ${whole(session, quota)})`,
  );
  const { rows: places } = await sql<LinePlace>`
    with recursive lines (line, name, quota) as (values ${sql.join(values)}),
    picks (line, name, quota, nth, place) as (
      select line, name, quota, 0, (select ${place} from runs where ${isOf("lines.name")} order by ${place} limit 1)
      from lines
      union all
      select line, name, quota, nth + 1, (
        select ${place} from runs where ${isOf("picks.name")} and ${place} > picks.place order by ${place} limit 1
      )
      from picks where nth + 1 < quota and place is not null
    )
    select line, nth, place from picks where place is not null
  `.execute(db);
  if (places.length === 0) return [];
  // By their ids, and in a statement of its own: a Postgres without statistics would read all that are due for a join, or if
  // this said that they are. A place ends with the id.
  const ids = places.map((one) => one.place.subarray(-UUID_BYTES));
  const { rows } = await sql<PickRow & { state: number; dueAt: number | null }>`
    select runs.id, runs.concurrency_key, runs.state, runs.due_at, ${sizeOf(session)} as size
    from runs ${withPayload(session)} where runs.app_number = ${appNumber} and runs.id in (${sql.join(ids)})
    ${session.skipLocked("runs")}
  `.execute(db);
  const found = new Map(rows.map((row) => [uuidText(row.id), row]));
  return places.flatMap(({ line, nth }, i) => {
    const row = found.get(uuidText(ids[i]!));
    return row && nameOfState(row.state) === "queued" && row.dueAt === null ? { ...row, line, nth } : [];
  });
}

type LinesQuery = { readonly appNumber: number; readonly turn: Turn | null; readonly limit: number };

/** The lines that have runs, from the one whose turn it is. */
export async function linesInTurn(session: Session, { appNumber, turn, limit }: LinesQuery) {
  const { sql } = session;
  const line = lineIn(session);
  if (turn === null) return await linesFrom(session, appNumber, sql`true`, sql`true`, limit);
  // Where its turn is not over, that line is the first.
  const [after, before] = turn.used > 0 ? [sql`>=`, sql`<`] : [sql`>`, sql`<=`];
  const lines = await linesFrom(session, appNumber, sql`${line} ${after} ${turn.line}`, sql`true`, limit);
  if (lines.length === limit) return lines;
  const isBefore = sql`${line} ${before} ${turn.line}`;
  return [...lines, ...(await linesFrom(session, appNumber, isBefore, isBefore, limit - lines.length))];
}

/** Lines in their order in the index; the first one meets the first condition, the others the second. */
async function linesFrom(
  session: Session,
  appNumber: number,
  isFirst: RawBuilder<unknown>,
  isNext: RawBuilder<unknown>,
  limit: number,
): Promise<string[]> {
  const { sql, db } = session;
  const line = lineIn(session);
  const ofApp = isDueIn(session, appNumber);
  const { rows } = await sql<{ line: string }>`
    with recursive found (line, nth) as (
      select (select ${line} from runs where ${ofApp} and ${isFirst} order by ${line} limit 1), 1
      union all
      select (
        select ${line} from runs where ${ofApp} and ${isNext} and ${line} > found.line order by ${line} limit 1
      ), nth + 1
      from found where found.line is not null and nth < ${limit}
    )
    select line from found where line is not null order by nth
  `.execute(db);
  return rows.map((row) => row.line);
}

/** How many runs of a line have one turn. The lines of an account's end users have the account's weight. */
export function weightOf(weights: Weights, line: string): number {
  const account = Object.hasOwn(weights, line) ? line : line.slice(0, Math.max(0, line.indexOf("/")));
  // A line may have any name, such as `constructor`.
  return (Object.hasOwn(weights, account) && weights[account]) || 1;
}

/** How many runs of a line's first turn are used: fewer than its weight, which may have been greater before. */
export function usedOf(turn: Turn | null, line: string, weight: number): number {
  return turn?.line === line ? Math.min(turn.used, weight - 1) : 0;
}

export function isDueIn(session: Statements, appNumber: number): RawBuilder<boolean> {
  return session.sql<boolean>`runs.app_number = ${appNumber} and ${isDue(session)}`;
}

type Statements = { readonly sql: Session["sql"] };

/** A whole number, where the statement does not say that it is one. */
export function whole({ sql }: Statements, value: number): RawBuilder<number> {
  return sql<number>`cast(${value} as integer)`;
}

/**
 * A text in a list of values. SQLite would compare one that says it is a text with the line of each run of the app, instead of
 * searching its index; Postgres takes it for a text only if it says so.
 */
export function text({ sql }: Statements, value: string): RawBuilder<string> {
  return sql<string>`coalesce(cast(${value} as text), '')`;
}

function sizeOf({ sql }: Session): RawBuilder<number | null> {
  return sql<number | null>`coalesce(payloads.input_bytes, length(payloads.input))`;
}

function withPayload({ sql }: Session): RawBuilder<unknown> {
  return sql`left join payloads on payloads.app_number = runs.app_number and payloads.id = runs.id`;
}

/** How many of the first runs fit. */
function fitting(rows: readonly PickRow[], { limit, maxBytes }: PickQuery): number {
  let bytes = 0;
  const end = rows.findIndex(({ size }, i) => {
    bytes += size ?? 0;
    return i === limit || (i > 0 && bytes > maxBytes);
  });
  return end < 0 ? rows.length : end;
}
