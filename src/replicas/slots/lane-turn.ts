/** While both lanes wait, every fourth slot is the backlog's. */
const CALLERS_IN_A_ROW = 3;

/**
 * Whether the next slot goes to the backlog: callers go first, until three of them have passed by a backlog
 * that waited. Pure: the lanes count, this decides.
 */
export function isBacklogsTurn(callers: number, backlog: number, passedBy: number): boolean {
  return backlog > 0 && (callers === 0 || passedBy >= CALLERS_IN_A_ROW);
}
