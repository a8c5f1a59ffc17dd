import type { Clock } from "../../kit/clock.ts";
import { withTimeout } from "../../kit/clock.ts";
import type { Usage, Vitals } from "../engine.ts";
import type { At, Seen } from "./agent-messages.ts";

/** Longer than a busy agent takes; who measures looks again soon. */
const ANSWER_MS = 2_000;
/** At once, of one agent: more than it has replicas. */
const MAX_OPEN = 1_000;

/** What a service asks an agent. */
export type Question =
  | { readonly look: { readonly id: number; readonly pid: number } }
  | { readonly where: { readonly id: number } };

/** Questions to an agent about its processes, and their answers. */
export class Questions {
  readonly #clock: Clock;
  readonly #ask: (question: Question) => void;
  readonly #open = new Map<number, (answer: Seen | At | null) => void>();
  /** What was seen last of those that do not answer themselves. */
  readonly #vitals = new Map<number, Vitals | null>();
  #next = 0;

  constructor(clock: Clock, ask: (question: Question) => void) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /** What that process uses, with all it started; 0 for what the agent keeps. Null if nobody says so in time. */
  async usage(pid: number): Promise<Usage | null> {
    return (await this.#look(pid))?.usage ?? null;
  }

  /** How often a process there was ended because memory ran out; 0 if nobody says so in time. */
  async memoryDeaths(): Promise<number> {
    return (await this.#look(0))?.out_of_memory ?? 0;
  }

  /** What was seen at the last look, which this one follows; null at first. */
  vitals(pid: number): Vitals | null {
    const before = this.#vitals.get(pid) ?? null;
    void this.#look(pid).then((seen) => seen && this.#vitals.set(pid, seen.vitals));
    return before;
  }

  /** Where the app's own server takes connections; null if nobody says so in time. */
  async place(): Promise<At | null> {
    const answer = await this.#put((id) => ({ where: { id } }));
    return answer && "place" in answer ? answer : null;
  }

  /** What nobody asked, or not any more, is of no interest. */
  answer(answer: Seen | At): void {
    this.#open.get(answer.id)?.(answer);
  }

  /** Nobody will answer. */
  giveUp(): void {
    for (const resolve of this.#open.values()) resolve(null);
    this.#vitals.clear();
  }

  async #look(pid: number): Promise<Seen | null> {
    if (this.#vitals.size >= MAX_OPEN) this.#vitals.clear();
    const answer = await this.#put((id) => ({ look: { id, pid } }));
    return answer && "usage" in answer ? answer : null;
  }

  async #put(question: (id: number) => Question): Promise<Seen | At | null> {
    if (this.#open.size >= MAX_OPEN) return null;
    const id = this.#next++;
    const { promise, resolve } = Promise.withResolvers<Seen | At | null>();
    this.#open.set(id, resolve);
    this.#ask(question(id));
    const answer = await withTimeout(ANSWER_MS, promise, this.#clock);
    this.#open.delete(id);
    return answer;
  }
}
