import type { RawBuilder } from "kysely";
import { RUN_MOVES, RUN_STATES, UNFINISHED } from "../model/run.ts";
import type { RunMove, RunState } from "../model/run.ts";
import type { Session } from "./operation.ts";

/** The number each state is stored as, its place in the model's list: that may grow at its end, never in between. */
export const STATE_CODES = Object.fromEntries(RUN_STATES.map((state, code) => [state, code])) as Readonly<
  Record<RunState, number>
>;

/** The numbers of the states that a run leaves again. */
const UNFINISHED_CODES = UNFINISHED.map((state) => STATE_CODES[state]);

/** The number of the state that a move starts from; the statement has to check for it. */
export function codeBefore(move: RunMove): number {
  return STATE_CODES[RUN_MOVES[move].from];
}

/** The number of the one state that a move leads to. */
export function codeAfter(move: "claim" | "release"): number {
  return STATE_CODES[RUN_MOVES[move].to[0]];
}

// Conditions on a state are written out, not passed as parameters: SQLite takes a partial index only if the query
// repeats its condition, word for word.

/** Whether a run, which the query calls so, has that state. */
export function isInState({ sql }: Pick<Session, "sql">, state: RunState, run = "runs"): RawBuilder<boolean> {
  return sql<boolean>`${sql.ref(`${run}.state`)} = ${sql.lit(STATE_CODES[state])}`;
}

/** Whether it has not ended. */
export function isUnfinished({ sql }: Pick<Session, "sql">, run = "runs"): RawBuilder<boolean> {
  return sql<boolean>`${sql.ref(`${run}.state`)} in (${codes(sql)})`;
}

/** Whether it has ended. */
export function isOver({ sql }: Pick<Session, "sql">, run = "runs"): RawBuilder<boolean> {
  return sql<boolean>`${sql.ref(`${run}.state`)} not in (${codes(sql)})`;
}

/** Whether it is queued; the second condition is that of the index of all that has not ended. */
export function isQueued(session: Pick<Session, "sql">, run = "runs"): RawBuilder<boolean> {
  return session.sql<boolean>`${isInState(session, "queued", run)} and ${isUnfinished(session, run)}`;
}

function codes(sql: Session["sql"]): RawBuilder<unknown> {
  return sql.join(UNFINISHED_CODES.map((code) => sql.lit(code)));
}
