import type { Clock } from "../../kit/clock.ts";
import { within } from "../../kit/within.ts";
import type { Usage, Vitals } from "../engine.ts";
import type { Seen } from "./seat-messages.ts";

/** Longer than a busy agent takes; who measures looks again soon. */
const ANSWER_MS = 2_000;
/** At once, of one seat: more than it has replicas. */
const MAX_OPEN = 1_000;

/** Questions to an agent about its processes, and their answers. */
export class Looks {
  readonly #clock: Clock;
  readonly #ask: (id: number, pid: number) => void;
  readonly #open = new Map<number, (seen: Seen | null) => void>();
  /** What was seen last of those that do not answer themselves. */
  readonly #vitals = new Map<number, Vitals | null>();
  #next = 0;

  constructor(clock: Clock, ask: (id: number, pid: number) => void) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /** What that process uses, with all it started; null if nobody says so in time. */
  async usage(pid: number): Promise<Usage | null> {
    return (await this.#look(pid))?.usage ?? null;
  }

  /** How often the kernel has ended a process there because memory ran out; 0 if nobody says so in time. */
  async memoryDeaths(): Promise<number> {
    return (await this.#look(0))?.out_of_memory ?? 0;
  }

  /** What was seen at the last look, which this one follows; null at first. */
  vitals(pid: number): Vitals | null {
    const before = this.#vitals.get(pid) ?? null;
    void this.#look(pid).then((seen) => seen && this.#vitals.set(pid, seen.vitals));
    return before;
  }

  /** What nobody asked, or not any more, is of no interest. */
  answer(seen: Seen): void {
    this.#open.get(seen.id)?.(seen);
  }

  /** Nobody will answer. */
  giveUp(): void {
    for (const resolve of this.#open.values()) resolve(null);
    this.#vitals.clear();
  }

  async #look(pid: number): Promise<Seen | null> {
    if (this.#open.size >= MAX_OPEN) return null;
    if (this.#vitals.size >= MAX_OPEN) this.#vitals.clear();
    const id = this.#next++;
    const { promise, resolve } = Promise.withResolvers<Seen | null>();
    this.#open.set(id, resolve);
    this.#ask(id, pid);
    const seen = await within(ANSWER_MS, promise, this.#clock);
    this.#open.delete(id);
    return seen;
  }
}
