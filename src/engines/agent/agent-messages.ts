import { z } from "zod";
import type { ServerPlace, ThreadVitals, Usage, Vitals } from "../engine.ts";
import { parseMessage } from "../protocol.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";

/** Folders that an app writes to, by the names by which agents know them. */
export const FOLDERS = ["scratch", "storage"] as const;
export type FolderName = (typeof FOLDERS)[number];

const MAX_QUESTIONS = 2 ** 31;
const MAX_THREADS = 64;
const MAX_PID = 2 ** 22;
/** More milliseconds and bytes than any machine has; sums of many are exact. */
const MAX_AMOUNT = 2 ** 44;

const amount = z.number().min(0).max(MAX_AMOUNT);
const id = z.int().min(0).max(MAX_QUESTIONS);
const port = z.int().min(1).max(65_535);
const usage = z
  .strictObject({ cpu_ms: amount, resident_bytes: amount })
  .transform((u): Usage => ({ cpuMs: u.cpu_ms, residentBytes: u.resident_bytes }));

const vitals = z
  .strictObject({
    at_ms: amount,
    is_stopped: z.boolean(),
    threads: z.array(z.tuple([z.int().min(0), amount, z.boolean()])).max(MAX_THREADS),
  })
  .transform((v): Vitals => ({ atMs: v.at_ms, isStopped: v.is_stopped, threads: threadsOf(v.threads) }));

/** The answer to `look`. */
export const seen = z.strictObject({
  id,
  usage: usage.nullable(),
  vitals: vitals.nullable(),
  out_of_memory: z.int().min(0).max(MAX_QUESTIONS),
});
type Seen = z.output<typeof seen>;

/** The answer to `where`. */
export const at = z
  .strictObject({
    id,
    pid: z.int().min(0).max(MAX_PID).optional(),
    is: z.boolean(),
    taken: port.optional(),
    host: z.string().max(64).optional(),
    port: port.optional(),
    is_fixed: z.boolean().optional(),
    is_open: z.boolean().optional(),
  })
  .transform((found) => ({ id: found.id, pid: found.pid ?? 0, place: placeOf(found) }));
type At = z.output<typeof at>;

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
/** That, and nothing else where nothing was said. */
export type Ending = z.output<typeof ending>;
export const NOTHING_SAID: Ending = { isOutOfMemory: false, full: null, isStorageFull: null };

const MESSAGE = z.union([
  z.strictObject({ seen }),
  z.strictObject({ at }),
  z.strictObject({ exited: ending }),
  z.strictObject({ full: z.enum(FOLDERS) }),
]);

/** What an agent of this machine says. */
type AgentMessage = z.output<typeof MESSAGE>;

/** Reads one line of it; throws `BadFrame` for anything that no agent says. */
export function parseAgentMessage(line: Buffer): AgentMessage {
  return parseMessage(MESSAGE, line, "agent");
}

function threadsOf(threads: readonly [number, number, boolean][]): Map<number, ThreadVitals> {
  return new Map(threads.map(([thread, usedMs, isRunnable]) => [thread, { usedMs, isRunnable }]));
}

function placeOf(found: {
  readonly is: boolean;
  readonly taken?: number | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly is_fixed?: boolean | undefined;
  readonly is_open?: boolean | undefined;
}): ServerPlace {
  const { host, port: listens, taken } = found;
  if (found.is && host !== undefined && listens !== undefined)
    return {
      kind: "listening",
      host,
      port: listens,
      isOpen: found.is_open ?? false,
      isFixed: found.is_fixed ?? false,
    };
  return taken === undefined ? { kind: "nowhere" } : { kind: "taken", port: taken };
}

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
