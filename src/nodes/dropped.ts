/** What this node passes on, and can end on its own. */
export type Droppable = { abandon(): void };

/** So many that other nodes have dropped are remembered, for answers that are still being read from the connection. */
const MAX_REMEMBERED = 10_000;

/**
 * Answers of other nodes whose callers do not read. While nothing is taken from the connection to that node, nobody sees
 * that it was closed there: because the caller may read no more, or has not read for too long. So the other node says it.
 */
export class Dropped {
  readonly #stalled = new Map<string, Set<Droppable>>();
  readonly #dropped = new Set<string>();

  /** Nothing is taken of that answer for now. `requestId`: its `X-Request-Id`. */
  add(nodeId: string, requestId: string, answer: Droppable): void {
    const key = keyOf(nodeId, requestId);
    if (this.#dropped.has(key)) return answer.abandon();
    const stalled = this.#stalled.get(key);
    if (stalled) stalled.add(answer);
    else this.#stalled.set(key, new Set([answer]));
  }

  remove(nodeId: string, requestId: string, answer: Droppable): void {
    const key = keyOf(nodeId, requestId);
    const stalled = this.#stalled.get(key);
    stalled?.delete(answer);
    if (stalled?.size === 0) this.#stalled.delete(key);
  }

  /** The other node has closed that answer's connection. */
  drop(nodeId: string, requestId: string): void {
    const key = keyOf(nodeId, requestId);
    const [oldest] = this.#dropped;
    if (oldest !== undefined && this.#dropped.size >= MAX_REMEMBERED) this.#dropped.delete(oldest);
    this.#dropped.add(key);
    const stalled = this.#stalled.get(key) ?? [];
    this.#stalled.delete(key);
    for (const answer of stalled) answer.abandon();
  }
}

function keyOf(nodeId: string, requestId: string): string {
  return `${nodeId} ${requestId}`;
}
