import type { Socket } from "node:net";
import { z } from "zod";
import { JsonScan } from "../kit/json/scan.ts";
import { LineCutter } from "../kit/line-cutter.ts";
import type { FunctionSignature } from "../model/app.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** The limits for messages of an app's process, which the harness keeps. A test compares them with Python and `docs/wire.md`. */
export const WIRE_LIMITS = {
  /** HELLO, and a template's `ready`. */
  helloBytes: 2 * MIB,
  /** INIT_FAILED, and a template's `failed`. */
  initFailedBytes: MIB,
  failedBytes: MIB,
  /** Nesting of JSON that is parsed here. */
  depth: 2_000,
  functions: 1_000,
  /** How many calls a stepper may take at a time. */
  stepperCalls: 10_000,
  /** Of all functions together. */
  parameters: 10_000,
  /** JSON values in the schemas of one function; each takes far more memory than it has bytes. */
  schemaValues: 5_000,
  /** Of all functions together. */
  appSchemaValues: 20_000,
  /** Of a function, a parameter, an argument. */
  nameChars: 256,
  /** Each of a docstring, an annotation, a default as text. */
  noteChars: 4_096,
  /** Longer messages are cut. */
  messageChars: 8_192,
  tracebackChars: 16_384,
  /** Arguments that do not fit. */
  misfits: 500,
  /** Names of an exception's classes. */
  types: 50,
  /** The longest wait that an exception may ask for: 30 days. */
  retryAfterSeconds: 2_592_000,
  checkpointBytes: MIB,
  /** Of a message about progress: 500 characters of 4 bytes. */
  progressBytes: 2_000,
  /** A little more than a day: longer than any run may take. */
  runMs: 100_000_000,
  /** Longer than deployment_initialization_timeout can be. */
  setupMs: 100_000_000,
  /** A longer printed line is cut into several. */
  lineBytes: 64 * KIB,
} as const;

/** An app's limits for the results and chunks of its functions. */
export type PayloadLimits = { readonly maxResultBytes: number; readonly maxChunkBytes: number };

const MESSAGE_MARK = " [millrace: cut]";
const TRACEBACK_MARK = "[millrace: cut]\n";

/** Keeps the beginning of an error message. */
export function cutMessage(text: string): string {
  const { messageChars } = WIRE_LIMITS;
  return text.length <= messageChars ? text : text.slice(0, messageChars) + MESSAGE_MARK;
}

/** Keeps the end of a traceback, where the error is. */
export function cutTraceback(text: string): string {
  const { tracebackChars } = WIRE_LIMITS;
  return text.length <= tracebackChars ? text : TRACEBACK_MARK + text.slice(-tracebackChars);
}

/** The other side broke the protocol. The message is our own text, and may be shown. */
export class BadFrame extends Error {}

/** The events that are legal in each state, and the state that each leads to. */
export type Moves<Phase extends string, Word extends string> = Readonly<
  Record<Phase, Readonly<Partial<Record<Word, Phase>>>>
>;

/** Reads JSON of a shape. Its depth is limited, because it is later written as JSON by a recursion. */
export function parseJson<Schema extends z.ZodType>(what: string, schema: Schema, payload: Buffer) {
  const scan = new JsonScan(WIRE_LIMITS.depth);
  if (!scan.push(payload) || !scan.isWhole) throw new BadFrame(`${what} that is not JSON`);
  const parsed = schema.safeParse(JSON.parse(payload.toString()));
  if (parsed.success) return parsed.data;
  throw new BadFrame(`${what} that cannot be read: ${describe(parsed.error)}`);
}

/** Where the first fault is: names and numbers of the protocol, never content that was sent. */
function describe({ issues }: z.ZodError): string {
  const [issue] = issues;
  if (!issue) return "";
  return `${issue.code === "custom" ? issue.message : issue.code} at "${issue.path.join(".")}"`;
}

/** Reads a connection line by line until `isOver`, or until `onLine` throws. A line of more than `maxBytes` is a `BadFrame`. */
export function readFrames(
  socket: Socket,
  maxBytes: number,
  isOver: () => boolean,
  onLine: (line: Buffer) => void,
  onFailure: (error: unknown) => void,
): void {
  const cutter = new LineCutter({ maxBytes }, (line, isPiece) => {
    if (isPiece) throw new BadFrame(`a line of more than ${maxBytes} bytes`);
    onLine(line);
  });
  socket.on("data", (data: Buffer) => {
    if (isOver()) return;
    try {
      cutter.push(data);
      cutter.cut(() => !isOver());
    } catch (error) {
      onFailure(error);
    }
  });
}

/** Parses a line as a JSON message with one member; throws `BadFrame` otherwise. */
export function parseMessage<Message>(shape: z.ZodType<Message>, line: Buffer, sender: string): Message {
  let value: unknown;
  try {
    value = JSON.parse(line.toString("utf8"));
  } catch {
    throw new BadFrame("a line that is not JSON");
  }
  const result = shape.safeParse(value);
  if (!result.success) throw new BadFrame(`a message that no ${sender} sends`);
  return result.data;
}

/** Reads the lines of one connection; throws `BadFrame` also for a message that is illegal at that point. */
export function orderedReader<Message extends object, Phase extends string>(
  parse: (line: Buffer) => Message,
  moves: Moves<Phase, string>,
  first: Phase,
): (line: Buffer) => Message {
  let phase = first;
  return (line) => {
    const message = parse(line);
    const [word = ""] = Object.keys(message);
    const next = moves[phase][word];
    if (next === undefined) throw new BadFrame(`"${word}" out of turn`);
    phase = next;
    return message;
  };
}

const { functions: MAX_FUNCTIONS, parameters: MAX_PARAMETERS, noteChars, nameChars } = WIRE_LIMITS;
const { schemaValues: MAX_SCHEMA_VALUES, appSchemaValues: MAX_APP_SCHEMA_VALUES } = WIRE_LIMITS;
const MAX_PID = 2 ** 22;
const VERSION_CHARS = 32;

export const pid = z.int().min(1).max(MAX_PID);
const name = z.string().min(1).max(nameChars);
const note = z.string().max(noteChars).nullable();

/** Derived from the app's own code; an invalid schema counts as empty. */
const schema = z.record(z.string(), z.unknown()).catch({});
const kind = z.enum(["named", "rest"]);
const parameter = z.object({ name, kind, required: z.boolean(), annotation: note, default: note, schema });

const functionSignature = z
  .object({
    name,
    parameters: z.array(parameter),
    is_async: z.boolean(),
    is_generator: z.boolean(),
    wants_run_id: z.boolean(),
    doc: note,
    streams: z.boolean().optional(),
    returns: schema,
    batch: z.enum(["list", "stepper"]).nullable().default(null),
  })
  .refine((signature) => schemaValues(signature) <= MAX_SCHEMA_VALUES, {
    message: `schemas of more than ${MAX_SCHEMA_VALUES} values`,
  })
  .transform((f): FunctionSignature => ({
    name: f.name,
    parameters: f.parameters,
    isAsync: f.is_async,
    isGenerator: f.is_generator,
    wantsRunId: f.wants_run_id,
    doc: f.doc,
    streams: f.streams ?? f.is_generator,
    returns: f.returns,
    ...(f.batch !== null && { batch: f.batch }),
  }));

export const functions = z
  .array(functionSignature)
  .max(MAX_FUNCTIONS)
  .refine((all) => sumOf(all, ({ parameters }) => parameters.length) <= MAX_PARAMETERS, {
    message: `more than ${MAX_PARAMETERS} parameters`,
  })
  .refine((all) => sumOf(all, schemaValues) <= MAX_APP_SCHEMA_VALUES, {
    message: `schemas of more than ${MAX_APP_SCHEMA_VALUES} values in all`,
  });

const hello = z.object({
  pid,
  python: z.string().max(VERSION_CHARS),
  functions,
  steppers: z
    .record(name, z.int().min(1).max(WIRE_LIMITS.stepperCalls))
    .default({})
    .refine((capacities) => Object.keys(capacities).length <= WIRE_LIMITS.functions, {
      message: `more than ${WIRE_LIMITS.functions} steppers`,
    })
    .transform((capacities) => new Map(Object.entries(capacities))),
  // Absent from replicas of an earlier release, which may go on in remote seats.
  setup_ms: z.number().min(0).max(WIRE_LIMITS.setupMs).nullable().default(null),
});
export const initFailure = z.object({
  message: z.string().transform(cutMessage),
  traceback: z.string().transform(cutTraceback),
});

export function parseHello(payload: Buffer): z.output<typeof hello> {
  return parseJson("HELLO", hello, payload);
}

export function parseInitFailure(payload: Buffer): z.output<typeof initFailure> {
  return parseJson("INIT_FAILED", initFailure, payload);
}

/** How many JSON values the schemas of a function contain; counts to one above the limit. */
function schemaValues({ parameters, returns }: Pick<FunctionSignature, "parameters" | "returns">): number {
  let left = MAX_SCHEMA_VALUES + 1;
  for (const schema of [returns, ...parameters.map((parameter) => parameter.schema)])
    left -= countValues(schema, left);
  return MAX_SCHEMA_VALUES + 1 - left;
}

/** How many JSON values a parsed value contains at any depth; counts no further than `max`. */
function countValues(value: unknown, max: number): number {
  let count = 0;
  const rest = [value];
  while (rest.length > 0 && count < max) {
    const each = rest.pop();
    if (typeof each !== "object" || each === null) continue;
    const members: unknown[] = Object.values(each);
    count += members.length;
    // One by one: the arguments of a call have to fit on the stack.
    for (const member of members) rest.push(member);
  }
  return Math.min(count, max);
}

function sumOf<Each>(all: readonly Each[], count: (each: Each) => number): number {
  return all.reduce((sum, each) => sum + count(each), 0);
}
