import { uuidBytes } from "../../kit/ids.ts";
import type { RunKey } from "../../model/run.ts";
import type { Session } from "../operation.ts";
import { isInState, lineIn, placeInQueue } from "./run-columns.ts";
import { isDueIn, linesInTurn, text, type TurnsQuery, usedOf, weightOf, whole } from "./turns.ts";

/** How many runs are counted to tell a run's position. */
const EXACT = 1_000;
/** How many lines are looked at together: few at first, because each may have as many runs as are counted. */
const FIRST_LINES = 16;

type PositionQuery = RunKey & TurnsQuery;

/** A run's rank in its own line, from 1, and whether the app has other lines. */
type Rank = { readonly line: string; readonly rank: number; readonly isAlone: boolean };

/** See `claims.position`. */
export async function positionOf(session: Session, query: PositionQuery): Promise<number | null> {
  const own = await rankOf(session, query);
  if (!own || own.isAlone) return own?.rank ?? null;
  return own.rank + (await aheadInOtherLines(session, query, own));
}

async function rankOf(session: Session, { appNumber, id }: PositionQuery): Promise<Rank | null> {
  const { sql, db } = session;
  const [line, place] = [lineIn(session), placeInQueue(session)];
  const ofApp = isDueIn(session, appNumber);
  type Row = Record<"own" | "first" | "last", Uint8Array> &
    Record<"line" | "firstLine" | "lastLine", string> & { before: number };
  // The first condition is not written as that of the index: without statistics, Postgres would search it for the id.
  const { rows } = await sql<Row>`
    with own as (
      select ${line} as line, ${place} as place from runs
      where runs.app_number = ${appNumber} and runs.id = ${uuidBytes(id)} and ${isInState(session, "queued")}
        and coalesce(runs.due_at, 0) = 0
    ), ahead as (
      select ${place} as place from runs
      where ${ofApp} and ${line} = (select line from own) and ${place} < (select place from own)
      order by ${place} limit ${EXACT}
    )
    select own.line, own.place as own, (select count(*) from ahead) as before,
      (select place from ahead order by place limit 1) as first,
      (select place from ahead order by place desc limit 1) as last,
      (select ${line} from runs where ${ofApp} order by ${line} limit 1) as first_line,
      (select ${line} from runs where ${ofApp} order by ${line} desc limit 1) as last_line
    from own
  `.execute(db);
  const [found] = rows;
  if (!found) return null;
  const { before, line: ownLine, firstLine, lastLine } = found;
  const own = { line: ownLine, isAlone: firstLine === lastLine };
  if (before < EXACT) return { ...own, rank: before + 1 };
  const [at, first, last] = [found.own, found.first, found.last].map(timeIn) as [number, number, number];
  const rank = Math.round(EXACT * Math.max(1, (at - first) / Math.max(1, last - first)));
  return { ...own, rank };
}

/**
 * How many runs of other lines have their turn before a run of that rank: of each as many as it has turns by then, if it has so
 * many. Counted up to `EXACT` in all; a line with more than are counted has a run for each of its turns.
 */
async function aheadInOtherLines(session: Session, query: PositionQuery, own: Rank): Promise<number> {
  const { appNumber, turn = null, weights = {} } = query;
  const ownWeight = weightOf(weights, own.line);
  const round = Math.floor((own.rank - 1 + usedOf(turn, own.line, ownWeight)) / ownWeight);
  let ahead = 0;
  let isBefore = true;
  let from = turn;
  let limit = FIRST_LINES;
  let end: string | null = null;
  for (;;) {
    const page: string[] = await linesInTurn(session, { appNumber, turn: from, limit });
    const stop = end === null ? -1 : page.indexOf(end);
    const lines = stop < 0 ? page : page.slice(0, stop);
    end ??= page[0] ?? null;
    const turns: { line: string; turns: number }[] = [];
    for (const line of lines) {
      if (line === own.line) isBefore = false;
      else {
        const rounds = isBefore ? round + 1 : round;
        const weight = weightOf(weights, line);
        turns.push({ line, turns: weight * rounds - (rounds > 0 ? usedOf(turn, line, weight) : 0) });
      }
    }
    const taken = turns.filter((one) => one.turns > 0);
    const most = Math.min(EXACT - ahead, Math.max(...taken.map((one) => one.turns)));
    const names = taken.map(({ line }) => line);
    const counts = await countUpTo(session, appNumber, names, most);
    taken.forEach(({ turns: all }, i) => (ahead += counts[i] === most ? all : Math.min(all, counts[i] ?? 0)));
    const last = page.at(-1);
    // Of the lines that follow none has a turn before this one; there may be any number of them.
    if (!isBefore && round === 0) return ahead;
    if (stop >= 0 || page.length < limit || last === undefined || ahead >= EXACT) return ahead;
    from = { line: last, used: 0, isAlone: false };
    limit *= 4;
  }
}

/** How many runs of each line are due, up to so many. */
async function countUpTo(session: Session, appNumber: number, names: readonly string[], most: number) {
  if (names.length === 0) return [];
  const { sql, db } = session;
  const rows = names.map((name, i) => sql`(${whole(session, i)}, ${text(session, name)})`);
  const ofLine = sql`${isDueIn(session, appNumber)} and ${lineIn(session)} = lines.name`;
  const { rows: counted } = await sql<{ count: number }>`
    with lines (nth, name) as (values ${sql.join(rows)})
    select (select count(*) from (select 1 from runs where ${ofLine} limit ${most}) as counted) as count
    from lines order by nth
  `.execute(db);
  return counted.map(({ count }) => count);
}

/** The milliseconds that a place or an id begins with. */
function timeIn(place: Uint8Array): number {
  return Buffer.from(place).readUIntBE(0, 6);
}
