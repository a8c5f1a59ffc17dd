import { isFinal, type RunState } from "../../../src/model/run.ts";

/** One step of an async run. Steps stand in the order in which they became true. */
export type QueueEvent = {
  readonly transaction: string;
  /** When the statement came that made it, and when it was true for all. */
  readonly askedAt: number;
  readonly committedAt: number;
  readonly app: number;
  readonly run: string;
  readonly before: RunState | null;
  readonly state: RunState;
  readonly attempt: number;
  /** Runs of a line begin in this order. */
  readonly place: string;
  /** When a queued run may begin; null: now. */
  readonly dueAt: number | null;
  readonly line: string;
  /** Its concurrency key. */
  readonly key: string | null;
  readonly maxAttempts: number | null;
};

/** What an app allows its runs. */
export type QueueLimits = {
  readonly running: number | null;
  readonly runningOfKey: number | null;
  readonly attempts: number;
};

/** A run with so distant a due time is parked: others of its key have to end first. */
const PARKED = Number.MAX_SAFE_INTEGER;
/** A commit is dated before others see it; on a busy machine by a good while. */
const SEEN_MS = 2_000;
/** Clocks are read at different places of one moment. */
const CLOCK_MS = 50;
/** So many runs of other lines may begin while one waits that is the first of its own, for each of these lines. */
const TURNS = 64;

/** A run in a plain queue. */
type Entry = {
  readonly event: QueueEvent;
  readonly state: RunState;
  /** Since when all could see that it may begin; null while it may not. */
  readonly dueSince: number | null;
  /** The last time before which it was not to begin. */
  readonly notBefore: number;
  /** How many runs of other lines have begun while it could. */
  readonly passed: number;
};

/** Replays a history with a plain queue in memory; one line for each step that this queue would not have made. */
export function queueFaults(events: readonly QueueEvent[], limits: QueueLimits): string[] {
  const queue = new PlainQueue(limits);
  for (let at = 0; at < events.length;) {
    const end = events.findIndex(({ transaction }, i) => i > at && transaction !== events[at]!.transaction);
    const next = end === -1 ? events.length : end;
    queue.commit(events.slice(at, next));
    at = next;
  }
  return [...queue.faults, ...queue.left()];
}

class PlainQueue {
  readonly faults: string[] = [];
  readonly #limits: QueueLimits;
  readonly #runs = new Map<string, Entry>();
  /** Those that wait and those that run, by app: what has ended need not be looked through. */
  readonly #apps = new Map<number, Set<string>>();

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  /** The steps of one transaction, which are true together. */
  commit(steps: readonly QueueEvent[]): void {
    const begun = steps.filter(({ before, state }) => state === "running" && before !== "running");
    const own = new Set(steps.map(({ run }) => run));
    for (const step of begun) this.#judgeStart(step, own);
    for (const step of steps) this.#move(step);
    for (const app of new Set(begun.map((step) => step.app))) this.#judgeLimits(app, begun);
  }

  /** Runs that have not ended. */
  left(): string[] {
    return [...this.#runs.values()]
      .filter(({ state }) => !isFinal(state))
      .map(({ event }) => say("a run has not ended", event));
  }

  #of(app: number): Entry[] {
    return [...(this.#apps.get(app) ?? [])].map((run) => this.#runs.get(run)!);
  }

  #judgeStart(step: QueueEvent, own: ReadonlySet<string>): void {
    const entry = this.#runs.get(step.run);
    if (step.committedAt + CLOCK_MS < (entry?.notBefore ?? 0)) this.#say("a run began before its time", step);
    if (step.attempt > (step.maxAttempts ?? this.#limits.attempts))
      this.#say("a run was tried too often", step);
    const waiting = this.#of(step.app).filter((other) => !own.has(other.event.run) && hasWaited(other, step));
    for (const { event } of waiting)
      if (event.line === step.line && event.key === step.key && event.place < step.place)
        this.#say(`a run overtook ${event.run} of its line and key`, step);
    this.#judgeTurns(step, waiting);
  }

  /** The first run of each other line that could begin has been passed once more. */
  #judgeTurns(step: QueueEvent, waiting: readonly Entry[]): void {
    const all = this.#of(step.app);
    const busy = new Set(all.filter(({ state }) => state === "running").map(({ event }) => event.key));
    const heads = new Map<string, Entry>();
    for (const other of waiting) {
      const { line, key, place } = other.event;
      const head = heads.get(line);
      if (line === step.line || (key !== null && busy.has(key))) continue;
      if (!head || place < head.event.place) heads.set(line, other);
    }
    const lines = new Set(all.map(({ event }) => event.line)).size;
    for (const head of heads.values()) {
      const passed = head.passed + 1;
      this.#runs.set(head.event.run, { ...head, passed });
      if (passed === TURNS * lines)
        this.#say(`${passed} runs of other lines began before ${head.event.run}`, step);
    }
  }

  #move(step: QueueEvent): void {
    const { run, before, state, dueAt, committedAt } = step;
    const entry = this.#runs.get(run);
    if ((entry?.state ?? null) !== before) this.#say(`a run was ${entry?.state ?? "unknown"}`, step);
    if (entry && isFinal(entry.state)) this.#say("a run went on after its end", step);
    const isDue = state === "queued" && dueAt === null;
    const wasDue = entry?.dueSince ?? null;
    const notBefore = dueAt !== null && dueAt < PARKED ? dueAt : (entry?.notBefore ?? 0);
    const dueSince = isDue ? (wasDue ?? committedAt) : null;
    this.#runs.set(run, { event: step, state, dueSince, notBefore, passed: 0 });
    const open = this.#apps.get(step.app) ?? new Set();
    this.#apps.set(step.app, open);
    if (isFinal(state)) open.delete(run);
    else open.add(run);
  }

  #judgeLimits(app: number, begun: readonly QueueEvent[]): void {
    const { running, runningOfKey } = this.#limits;
    const busy = this.#of(app).filter(({ state }) => state === "running");
    const [last] = begun.filter((step) => step.app === app);
    if (!last) return;
    if (running !== null && busy.length > running) this.#say(`${busy.length} runs of an app at once`, last);
    for (const key of new Set(begun.map((step) => step.key))) {
      const count = busy.filter(({ event }) => event.key === key).length;
      if (key !== null && runningOfKey !== null && count > runningOfKey)
        this.#say(`${count} runs of the key ${key} at once`, last);
    }
  }

  #say(what: string, step: QueueEvent): void {
    this.faults.push(say(what, step));
  }
}

/** Whether the statement of that step must have seen a run that waits. */
function hasWaited({ state, dueSince }: Entry, step: QueueEvent): boolean {
  return state === "queued" && dueSince !== null && dueSince + SEEN_MS <= step.askedAt;
}

function say(what: string, event: QueueEvent): string {
  return `${what}: ${JSON.stringify(event)}`;
}
