/** What one source may print: so much at once, and so much a second in the long run. */
export type FloodLimits = {
  readonly linesPerSecond: number;
  readonly bytesPerSecond: number;
  /** How many seconds' worth may come at once. */
  readonly burstSeconds: number;
};

/** A flood that is over: how many lines were left out, and the first of them. */
export type Flood<Line> = { readonly first: Line; readonly lineCount: number };

type Flow<Line> = {
  readonly owner: string;
  /** What may still come, and when that was so. */
  lines: number;
  bytes: number;
  at: number;
  /** The flood that is on; what comes meanwhile is left out. */
  flood: { first: Line; lineCount: number } | null;
};

/** Sources that are counted apart, an equal share for each owner; an owner's further sources share one allowance. */
const MAX_SOURCES = 50_000;
const LEAST_SHARE = 100;

/** Drops a source's lines while they are too many: a long flood is one gap a second. Times are monotonic milliseconds. */
export class FloodGate<Line> {
  readonly #limits: FloodLimits;
  /** What may come at once. */
  readonly #most: { readonly lines: number; readonly bytes: number };
  readonly #flows = new Map<string, Flow<Line>>();
  /** How many flows each owner has: one owner's sources take no room from another's. */
  readonly #counts = new Map<string, number>();

  constructor(limits: FloodLimits) {
    this.#limits = limits;
    const { linesPerSecond, bytesPerSecond, burstSeconds } = limits;
    this.#most = { lines: linesPerSecond * burstSeconds, bytes: bytesPerSecond * burstSeconds };
  }

  /** Whether an owner's line may pass; the flood before it, if this line is the first after one. */
  pass(
    { owner, source }: { readonly owner: string; readonly source: string },
    line: Line,
    bytes: number,
    now: number,
  ): { passes: boolean; after: Flood<Line> | null } {
    const flow = this.#flow(owner, source, now);
    const over = flow.flood && this.#isOver(flow) ? flow.flood : null;
    if (over) flow.flood = null;
    if (!flow.flood && flow.lines >= 1 && flow.bytes >= bytes) {
      flow.lines -= 1;
      flow.bytes -= bytes;
      return { passes: true, after: over };
    }
    flow.flood ??= { first: line, lineCount: 0 };
    flow.flood.lineCount += 1;
    return { passes: false, after: over };
  }

  /** Floods that are over without a line that came after. Call it now and then: it forgets quiet sources too. */
  settle(now: number): Flood<Line>[] {
    const ended: Flood<Line>[] = [];
    for (const [source, flow] of this.#flows) {
      this.#refill(flow, now);
      if (flow.flood && this.#isOver(flow)) {
        ended.push(flow.flood);
        flow.flood = null;
      }
      // One that may print all again is like one that was never seen.
      if (!flow.flood && flow.lines >= this.#most.lines && flow.bytes >= this.#most.bytes)
        this.#forget(source, flow);
    }
    return ended;
  }

  end(): Flood<Line>[] {
    const floods = [...this.#flows.values()].flatMap(({ flood }) => flood ?? []);
    this.#flows.clear();
    this.#counts.clear();
    return floods;
  }

  #forget(key: string, { owner }: Flow<Line>): void {
    this.#flows.delete(key);
    const left = (this.#counts.get(owner) ?? 0) - 1;
    if (left > 0) this.#counts.set(owner, left);
    else this.#counts.delete(owner);
  }

  #flow(owner: string, source: string, now: number): Flow<Line> {
    const own = `${owner}/${source}`;
    const count = this.#counts.get(owner) ?? 0;
    const share = Math.max(LEAST_SHARE, MAX_SOURCES / Math.max(1, this.#counts.size));
    const key = count >= share && !this.#flows.has(own) ? `${owner}/` : own;
    const known = this.#flows.get(key);
    if (known) {
      this.#refill(known, now);
      return known;
    }
    const flow = { owner, ...this.#most, at: now, flood: null };
    this.#flows.set(key, flow);
    this.#counts.set(owner, count + 1);
    return flow;
  }

  #refill(flow: Flow<Line>, now: number): void {
    const { linesPerSecond, bytesPerSecond } = this.#limits;
    const seconds = (now - flow.at) / 1000;
    flow.lines = Math.min(this.#most.lines, flow.lines + linesPerSecond * seconds);
    flow.bytes = Math.min(this.#most.bytes, flow.bytes + bytesPerSecond * seconds);
    flow.at = now;
  }

  #isOver({ lines, bytes }: Flow<Line>): boolean {
    return lines >= this.#limits.linesPerSecond && bytes >= this.#limits.bytesPerSecond;
  }
}
