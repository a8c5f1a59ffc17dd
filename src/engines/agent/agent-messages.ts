import { z } from "zod";
import type { ServerPlace, ThreadVitals, Usage, Vitals } from "../engine.ts";
import { parseMessage } from "../protocol.ts";

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
export type Seen = z.output<typeof seen>;

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
export type At = z.output<typeof at>;

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
export type AgentMessage = z.output<typeof MESSAGE>;

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
