import { z } from "zod";
import type { ServerPlace, Usage, Vitals } from "../engine.ts";
import { FOLDERS } from "../../host/limits/limits.ts";
import { parseMessage } from "../protocol.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";

const MAX_QUESTIONS = 2 ** 31;
const MAX_THREADS = 64;
const MAX_PID = 2 ** 22;
/** More milliseconds and bytes than any machine has; sums of many are exact. */
const amount = z
  .number()
  .min(0)
  .max(2 ** 44);
const id = z.int().min(0).max(MAX_QUESTIONS);
const port = z.int().min(1).max(65_535);
const usage = z
  .strictObject({ cpu_ms: amount, resident_bytes: amount })
  .transform((u): Usage => ({ cpuMs: u.cpu_ms, residentBytes: u.resident_bytes }));
const thread = z.tuple([z.int().min(0), amount, z.boolean()]);
const vitals = z
  .strictObject({ at_ms: amount, is_stopped: z.boolean(), threads: z.array(thread).max(MAX_THREADS) })
  .transform((v): Vitals => {
    const threads = v.threads.map(([of, usedMs, isRunnable]) => [of, { usedMs, isRunnable }] as const);
    return { atMs: v.at_ms, isStopped: v.is_stopped, threads: new Map(threads) };
  });

/** The answer to `look`. */
export const seen = z.strictObject({
  id,
  usage: usage.nullable(),
  vitals: vitals.nullable(),
  out_of_memory: id,
});
type Seen = z.output<typeof seen>;

/** The answer to `where`. */
export const at = z
  .strictObject({
    id,
    pid: z.int().min(0).max(MAX_PID).default(0),
    is: z.boolean(),
    taken: port.optional(),
    host: z.string().max(64).optional(),
    port: port.optional(),
    is_fixed: z.boolean().default(false),
    is_open: z.boolean().default(false),
  })
  .transform(({ id, pid, is, taken, host, port, is_fixed: isFixed, is_open: isOpen }) => {
    let place: ServerPlace = { kind: "nowhere" };
    if (is && host !== undefined && port !== undefined)
      place = { kind: "listening", host, port, isOpen, isFixed };
    else if (taken !== undefined) place = { kind: "taken", port: taken };
    return { id, pid, place };
  });
type At = z.output<typeof at>;

/** The answer to `show`. */
const shown = z.strictObject({ id, problem: z.string().max(2_000).nullable() });
type Shown = z.output<typeof shown>;

/** What only the agent knows of an end. */
const ending = z
  .strictObject({
    is_out_of_memory: z.boolean().optional(),
    full: z.enum(FOLDERS).optional(),
    is_storage_full: z.boolean().optional(),
  })
  .transform((e) => ({
    isOutOfMemory: e.is_out_of_memory ?? false,
    full: e.full ?? null,
    isStorageFull: e.is_storage_full ?? null,
  }));
export type Ending = z.output<typeof ending>;
export const NOTHING_SAID: Ending = { isOutOfMemory: false, full: null, isStorageFull: null };

const MESSAGE = z.union([
  z.strictObject({ seen }),
  z.strictObject({ at }),
  z.strictObject({ shown }),
  z.strictObject({ exited: ending }),
  z.strictObject({ full: z.enum(FOLDERS) }),
]);

export function parseAgentMessage(line: Buffer): z.output<typeof MESSAGE> {
  return parseMessage(MESSAGE, line, "agent");
}

/** Longer than a busy agent takes; measurements are repeated soon. */
const ANSWER_MS = 2_000;
/** A change is waited for longer: without it no replica starts, and no GPU is given back. */
const CHANGE_MS = 30_000;
/** Open questions to one agent: more than it has replicas. */
const MAX_OPEN = 1_000;

export type Question =
  | { readonly look: { readonly id: number; readonly pid: number } }
  | { readonly where: { readonly id: number } }
  | { readonly show: { readonly id: number; readonly gpus: readonly string[] } };

type Answer = Seen | At | Shown;

/** Questions to an agent about its processes, and their answers. */
export class Questions {
  readonly #clock: Clock;
  readonly #ask: (question: Question) => boolean;
  readonly #open = new Map<number, (answer: Answer | null) => void>();
  /** Looks that are not answered yet, by process: those who ask meanwhile share the answer. */
  readonly #looks = new Map<number, Promise<Seen | null>>();
  /** What was seen last of silent processes. */
  readonly #vitals = new Map<number, Vitals | null>();
  #next = 0;

  /** `ask` returns false if the agent cannot be asked. */
  constructor(clock: Clock, ask: (question: Question) => boolean) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /** What that process and all it started use; 0 for what the agent keeps. Null without an answer in time. */
  async usage(pid: number): Promise<Usage | null> {
    return (await this.#look(pid))?.usage ?? null;
  }

  /** How often a process there was ended because memory ran out; 0 without an answer in time. */
  async memoryDeaths(): Promise<number> {
    // Not shared: what was seen before the death says nothing about it.
    return (await this.#lookAnew(0))?.out_of_memory ?? 0;
  }

  /** What the last look has seen; looks again. Null at first. */
  vitals(pid: number): Vitals | null {
    const before = this.#vitals.get(pid) ?? null;
    void this.#look(pid).then((seen) => seen && this.#vitals.set(pid, seen.vitals));
    return before;
  }

  /** Where the app's own server takes connections; null without an answer in time. */
  async place(): Promise<At | null> {
    const answer = await this.#put((id) => ({ where: { id } }));
    return answer && "place" in answer ? answer : null;
  }

  /** Lets the processes there open exactly these GPUs, by their device files. Rejects if the agent has not done it. */
  async show(gpus: readonly string[]): Promise<void> {
    const answer = await this.#put((id) => ({ show: { id, gpus } }), CHANGE_MS);
    const problem = answer && "problem" in answer ? answer.problem : "its agent does not answer";
    if (problem !== null) throw new Error(`the GPUs of an app could not be changed: ${problem}`);
  }

  /** Takes an answer; ignores one that comes too late. */
  answer(answer: Answer): void {
    this.#open.get(answer.id)?.(answer);
  }

  giveUp(): void {
    for (const resolve of this.#open.values()) resolve(null);
    this.#vitals.clear();
  }

  /** However often it is called, an agent is asked once at a time: a flood of questions kept it from everything else. */
  #look(pid: number): Promise<Seen | null> {
    const open = this.#looks.get(pid);
    if (open) return open;
    const look = this.#lookAnew(pid).finally(() => this.#looks.delete(pid));
    this.#looks.set(pid, look);
    return look;
  }

  async #lookAnew(pid: number): Promise<Seen | null> {
    if (this.#vitals.size >= MAX_OPEN) this.#vitals.clear();
    const answer = await this.#put((id) => ({ look: { id, pid } }));
    return answer && "usage" in answer ? answer : null;
  }

  async #put(question: (id: number) => Question, ms = ANSWER_MS): Promise<Answer | null> {
    if (this.#open.size >= MAX_OPEN) return null;
    const id = this.#next++;
    const { promise, resolve } = Promise.withResolvers<Answer | null>();
    this.#open.set(id, resolve);
    const answer = this.#ask(question(id)) ? await withTimeout(ms, promise, this.#clock) : null;
    this.#open.delete(id);
    return answer;
  }
}
