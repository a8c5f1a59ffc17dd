import type { QueueConfig, Rate } from "../../src/model/app-config.ts";
import { nextRoomAt, roomIn, type Starts, withStarts } from "../../src/model/queue-limits.ts";

/** A run of the model; `due`: null if it waits for its turn, a time if it is delayed. */
export type ModelRun = {
  readonly id: string;
  readonly line: string;
  readonly key: string | null;
  readonly time: number;
  readonly state: "queued" | "running" | "ended";
  readonly due: "parked" | number | null;
  readonly interruptions: number;
  readonly attempt: number;
  readonly fence: number;
};

/** Stands for the app among the keys whose starts are counted. */
const APP = "";

/** What the queue of an app promises, on an array: slow, and plain to read. */
export class ModelQueue {
  readonly weights: Readonly<Record<string, number>>;
  readonly #queue: QueueConfig | undefined;
  /** The line that had its turn last, and how many runs of that turn are used. */
  turn: { line: string; used: number } | null = null;
  #runs: ModelRun[] = [];
  readonly #starts = new Map<string, Starts>();

  constructor(weights: Readonly<Record<string, number>>, queue?: QueueConfig) {
    this.weights = weights;
    this.#queue = queue;
  }

  get hasKeyLimits(): boolean {
    return this.#keyLimit !== Infinity || this.#keyRate !== null;
  }

  get #keyLimit(): number {
    return this.#queue?.concurrencyKeyLimit ?? Infinity;
  }

  get #keyRate(): Rate | null {
    return this.#queue?.concurrencyKeyRateLimit ?? null;
  }

  all(state: ModelRun["state"]): ModelRun[] {
    return this.#runs.filter((run) => run.state === state);
  }

  accept(run: ModelRun): void {
    this.#runs.push(run);
  }

  /** The line whose turn it is; null if no run may begin. */
  nextLine(): string | null {
    const { turn } = this;
    const lines = [...new Set(this.#due().map((run) => run.line))].toSorted();
    if (turn && turn.used > 0 && lines.includes(turn.line)) return turn.line;
    return lines.find((line) => turn === null || line > turn.line) ?? lines[0] ?? null;
  }

  /** What a claim of so many claims, which may have been cut short after `count`. */
  claim(most: number, count: number, now: number) {
    const room = this.#room(now);
    const none = { ids: [], keys: [], isHeld: false };
    if (this.nextLine() === null) return none;
    if (room <= 0) return { ...none, isHeld: true };
    const ids: string[] = [];
    const keys = new Set<string>();
    for (let i = 0; i < Math.max(1, count) && i < Math.min(most, room); i++) {
      const run = this.#take();
      if (!run) break;
      if (this.#mayBegin(run, now)) {
        this.#change(run, { state: "running", fence: run.fence + 1 });
        ids.push(run.id);
        if (run.interruptions === 0 || run.attempt > 1) this.#count(run, now, keys);
      } else {
        this.#change(run, { due: "parked" });
        keys.add(run.key!);
      }
    }
    return { ids, keys: [...keys], isHeld: false };
  }

  /** The ids of all runs that may begin, in the order of their turns. */
  turns(): string[] {
    const rest = new ModelQueue(this.weights);
    rest.turn = this.turn;
    rest.#runs = this.#due();
    const ids: string[] = [];
    for (let run = rest.#take(); run; run = rest.#take()) {
      ids.push(run.id);
      rest.#change(run, { state: "ended" });
    }
    return ids;
  }

  end(run: ModelRun, how: "finish" | "retry" | "later" | "cancel", later: number): void {
    if (how === "finish" || how === "cancel") this.#change(run, { state: "ended", due: null });
    else {
      const due = how === "later" ? later : null;
      this.#change(run, { state: "queued", due, attempt: run.attempt + 1 });
    }
  }

  /** Lets parked runs of a key begin, or one of them later. */
  admit(key: string, now: number): { count: number; nextAt: number | null } {
    const ofKey = this.#runs.filter((run) => run.key === key);
    const parked = ofKey.filter((run) => run.due === "parked").toSorted(byPlace);
    const due = ofKey.filter((run) => run.state === "queued" && run.due === null).length;
    const running = ofKey.filter((run) => run.state === "running").length;
    const starts = this.#starts.get(key) ?? [];
    const room = this.#keyRate ? roomIn(starts, this.#keyRate, now) : Infinity;
    const free = Math.max(0, Math.min(this.#keyLimit - running - due, room - due));
    const admitted = parked.slice(0, free);
    for (const run of admitted) this.#change(run, { due: null });
    const none = { count: admitted.length, nextAt: null };
    const [next] = parked.slice(admitted.length);
    // Only where nothing but the rate is in the way.
    const isFree = this.#keyLimit - running > 0 && due + admitted.length === 0;
    if (!this.#keyRate || !next || !isFree) return none;
    const nextAt = nextRoomAt(starts, this.#keyRate, now);
    if (ofKey.some((run) => run.state === "queued" && typeof run.due === "number" && run.due <= nextAt))
      return none;
    this.#change(next, { due: nextAt });
    return { ...none, nextAt };
  }

  makeDue(now: number): void {
    for (const run of this.all("queued"))
      if (typeof run.due === "number" && run.due <= now) this.#change(run, { due: null });
  }

  recover(): void {
    for (const run of this.all("running"))
      this.#change(run, { state: "queued", interruptions: run.interruptions + 1 });
  }

  #due(): ModelRun[] {
    return this.all("queued").filter((run) => run.due === null);
  }

  #room(now: number): number {
    const { concurrencyLimit = null, rateLimit = null } = this.#queue ?? {};
    const free = concurrencyLimit === null ? Infinity : concurrencyLimit - this.all("running").length;
    return rateLimit ? Math.min(free, roomIn(this.#starts.get(APP) ?? [], rateLimit, now)) : free;
  }

  #mayBegin({ key }: ModelRun, now: number): boolean {
    if (key === null) return true;
    const running = this.all("running").filter((run) => run.key === key).length;
    const room = this.#keyRate ? roomIn(this.#starts.get(key) ?? [], this.#keyRate, now) : Infinity;
    return running < this.#keyLimit && room > 0;
  }

  #count({ key }: ModelRun, now: number, keys: Set<string>): void {
    const { rateLimit = null } = this.#queue ?? {};
    const add = (of: string, rate: Rate): void =>
      void this.#starts.set(of, withStarts(this.#starts.get(of) ?? [], rate, now, 1));
    if (rateLimit) add(APP, rateLimit);
    if (key === null || !this.#keyRate) return;
    add(key, this.#keyRate);
    keys.add(key);
  }

  /** The next run, whose turn is used. */
  #take(): ModelRun | null {
    const line = this.nextLine();
    if (line === null) return null;
    const used = this.turn?.line === line ? this.turn.used : 0;
    this.turn = { line, used: (used + 1) % (this.weights[line] ?? 1) };
    return this.#due()
      .filter((run) => run.line === line)
      .toSorted(byPlace)[0]!;
  }

  #change(run: ModelRun, change: Partial<ModelRun>): void {
    this.#runs = this.#runs.map((one) => (one.id === run.id ? { ...one, ...change } : one));
  }
}

function byPlace(a: ModelRun, b: ModelRun): number {
  return a.time - b.time || (a.id < b.id ? -1 : 1);
}
