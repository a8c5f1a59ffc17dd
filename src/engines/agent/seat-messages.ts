import { z } from "zod";
import type { BuildFolder } from "../build-seats.ts";
import { FOLDERS } from "../../host/limits/limits.ts";
import { at, type Question, seen } from "./agent-messages.ts";
import { type AskedLimits, type AskedWalls, SEAT_LEVELS, type ToldEnd } from "./seat-walls.ts";
import { BadFrame, type Moves, orderedReader, parseMessage } from "../protocol.ts";

/** The longest message of an agent: a printed line, or why it failed. */
export const MAX_LINE_BYTES = 64 * 1024;

type SeatPhase =
  | "greeting"
  | "fetching"
  | "starting"
  | "running"
  | "hired"
  | "preparing"
  | "building"
  | "over";

/** The messages of an agent on one connection. On the next one it repeats what has happened so far. */
export const SEAT_MOVES: Moves<SeatPhase, string> = {
  greeting: { hello: "fetching" },
  fetching: { fetched: "starting", failed: "over", exited: "over", beat: "fetching" },
  starting: { started: "running", failed: "over", exited: "over", beat: "starting" },
  running: { exited: "over", ...always("running", ["beat", "leaving", "adopted", "printed", "seen", "at"]) },
  // A seat in which an environment is built.
  hired: { hello: "preparing" },
  preparing: { ready: "building", failed: "over", exited: "over", beat: "preparing" },
  building: { done: "building", printed: "building", exited: "over", beat: "building" },
  // The last lines and answers may come after the end.
  over: always("over", ["beat", "leaving", "printed", "seen", "at", "done"]),
};

function always(phase: SeatPhase, words: readonly string[]): Readonly<Record<string, SeatPhase>> {
  return Object.fromEntries(words.map((word) => [word, phase]));
}

const MAX_EXIT_CODE = 255;
/** A start may wait for a machine to be bought. */
const MAX_START_MS = 100_000_000;
const MAX_ORDERS = 1_000_000;
/** For each connection: an agent forwards a quarter of that of each stream, in its whole life. */
const MAX_PRINTED_CHARS = 1024 * 1024;

const empty = z.strictObject({});
const since = z.strictObject({ ms: z.number().min(0).max(MAX_START_MS) });
/** A whole path in a seat. */
const path = z.string().max(4_096).startsWith("/");
const walls = z.strictObject({ level: z.enum(SEAT_LEVELS), gap: z.string().max(2_000).nullable() });
const done = z
  .strictObject({
    id: z.int().min(1).max(MAX_ORDERS),
    code: z.int().min(0).max(MAX_EXIT_CODE),
    is_out_of_memory: z.boolean(),
    problem: z.string().max(4_000).nullable(),
  })
  .transform(({ is_out_of_memory, ...rest }) => ({ ...rest, isOutOfMemory: is_out_of_memory }));

const MESSAGE = z.union([
  z.strictObject({ beat: empty }),
  z.strictObject({ hello: z.strictObject({ python: z.string().max(32), tag: z.string().max(200) }) }),
  z.strictObject({ fetched: since }),
  z.strictObject({ started: since.extend({ walls: walls.nullable() }) }),
  z.strictObject({ failed: z.strictObject({ message: z.string().max(4_000) }) }),
  z.strictObject({
    exited: z
      .strictObject({
        code: z.int().min(0).max(MAX_EXIT_CODE),
        is_out_of_memory: z.boolean(),
        full: z.enum(FOLDERS).optional(),
      })
      .transform((e): ToldEnd => ({ code: e.code, isOutOfMemory: e.is_out_of_memory, full: e.full ?? null })),
  }),
  z.strictObject({ printed: z.strictObject({ stream: z.enum(["stdout", "stderr"]), text: z.string() }) }),
  z.strictObject({ seen }),
  z.strictObject({ at }),
  z.strictObject({ leaving: empty }),
  z.strictObject({ adopted: empty }),
  z.strictObject({ ready: z.strictObject({ folder: path, python: path }) }),
  z.strictObject({ done }),
]);

export type SeatMessage = z.infer<typeof MESSAGE>;

export function parseSeatMessage(line: Buffer): SeatMessage {
  return parseMessage(MESSAGE, line, "agent");
}

/** Reads the lines of one connection of an agent, in an order that is checked: of one that runs an app, or that builds. */
export function seatReader(first: "greeting" | "hired" = "greeting"): (line: Buffer) => SeatMessage {
  const read = orderedReader(parseSeatMessage, SEAT_MOVES, first);
  // What a build prints is counted for each order.
  let left = first === "hired" ? Number.POSITIVE_INFINITY : MAX_PRINTED_CHARS;
  return (line) => {
    const message = read(line);
    if ("printed" in message) left -= message.printed.text.length + 1;
    if (left < 0) throw new BadFrame("more printed lines than an agent passes on");
    return message;
  };
}

export type Assignment = {
  /** Hashes of blobs. */
  readonly bundle: string;
  readonly environment: string | null;
  /** Where the project's storage is in such places. */
  readonly storage: string;
  readonly variables: Readonly<Record<string, string>>;
  /** The walls around the app; null if its place isolates it. */
  readonly walls: AskedWalls | null;
  /** Null if its place enforces them. */
  readonly limits: AskedLimits | null;
  /** The order of the harness; the agent completes it. */
  readonly order: unknown;
  /** The app's own server in place of the harness; null for none. */
  readonly server: {
    readonly command: readonly string[];
    readonly port: number;
    /** The one that its author wrote, which may be in its code. */
    readonly authored: number;
    /** For its output. */
    readonly ticket: string;
  } | null;
  /** The app does not run: the agent carries out build orders. */
  readonly build?: true;
};

/** One step for an agent that builds an environment. */
export type BuildOrder =
  /** Run a program in the bundle's folder, with those files beside it. */
  | {
      readonly run: {
        readonly id: number;
        readonly program: string;
        readonly args: readonly string[];
        readonly env: Readonly<Record<string, string>>;
        readonly files: Readonly<Record<string, string>>;
      };
    }
  /** Send a folder, on a connection that shows this ticket. */
  | { readonly give: { readonly id: number; readonly what: BuildFolder; readonly ticket: string } }
  /** Fetch an environment that was built before. */
  | { readonly bring: { readonly id: number; readonly blob: string } };

/** How an agent and a service recognize each other from then on. */
type Session = {
  readonly secret: string;
  readonly fence: number;
  readonly grace_ms: number;
  readonly addresses: readonly string[];
  readonly sit: Assignment;
};

export type ServiceMessage =
  | BuildOrder
  | { readonly session: Session }
  | { readonly beat: Record<string, never> }
  | Question
  /** Connect the app's own server with a connection that shows this ticket. */
  | { readonly dial: { readonly ticket: string } }
  /** Where services are now. */
  | { readonly services: { readonly addresses: readonly string[] } }
  /** Ask the app's own server to end. */
  | { readonly ask: Record<string, never> }
  | { readonly end: Record<string, never> }
  | { readonly fenced: Record<string, never> }
  | { readonly elsewhere: { readonly address: string } };
