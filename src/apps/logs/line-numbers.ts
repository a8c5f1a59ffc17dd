/** Replicas whose last line number is remembered: far more than live at once. */
const MAX_REPLICAS = 10_000;

/** Counts each replica's lines from 1. */
export class LineNumbers {
  readonly #last = new Map<string, number>();

  /** The number of a replica's next line. */
  next(appNumber: number, replicaId: string): number {
    const key = `${appNumber}/${replicaId}`;
    const number = (this.#last.get(key) ?? 0) + 1;
    // The one that printed least recently stands first.
    this.#last.delete(key);
    this.#last.set(key, number);
    if (this.#last.size > MAX_REPLICAS) this.#last.delete(this.#last.keys().next().value ?? "");
    return number;
  }
}
