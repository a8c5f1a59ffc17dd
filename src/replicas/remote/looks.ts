import type { Clock } from "../../kit/clock.ts";
import { within } from "../../kit/within.ts";
import type { Usage } from "../engine.ts";

/** Longer than a busy agent takes; who measures looks again soon. */
const ANSWER_MS = 2_000;
/** At once, of one seat: more than it has replicas. */
const MAX_OPEN = 1_000;

/** Questions to an agent about its processes, and their answers. */
export class Looks {
  readonly #clock: Clock;
  readonly #ask: (id: number, pid: number) => void;
  readonly #open = new Map<number, (usage: Usage | null) => void>();
  #next = 0;

  constructor(clock: Clock, ask: (id: number, pid: number) => void) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /** What that process uses, with all it started; null if nobody says so in time. */
  async ask(pid: number): Promise<Usage | null> {
    if (this.#open.size >= MAX_OPEN) return null;
    const id = this.#next++;
    const { promise, resolve } = Promise.withResolvers<Usage | null>();
    this.#open.set(id, resolve);
    this.#ask(id, pid);
    const usage = await within(ANSWER_MS, promise, this.#clock);
    this.#open.delete(id);
    return usage;
  }

  /** What nobody asked, or not any more, is of no interest. */
  answer(id: number, usage: Usage | null): void {
    this.#open.get(id)?.(usage);
  }

  /** Nobody will answer. */
  giveUp(): void {
    for (const resolve of this.#open.values()) resolve(null);
  }
}
