import type { z } from "zod";
import { JsonScan } from "../kit/json/scan.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * The most that the service accepts from an app's process. The harness stays within these limits; a process that does
 * not is no harness. `docs/wire.md` lists the same limits, and a test compares both with Python's.
 */
export const WIRE_LIMITS = {
  /** HELLO, and a template's `ready`. */
  helloBytes: 2 * MIB,
  /** INIT_FAILED, and a template's `failed`. */
  initFailedBytes: MIB,
  failedBytes: MIB,
  /** How deeply JSON that is parsed here may be nested. */
  depth: 2_000,
  functions: 1_000,
  /** Of all functions together. */
  parameters: 10_000,
  /** JSON values inside the schemas of one function; each takes far more memory than it has bytes. */
  schemaValues: 5_000,
  /** Of all functions together. */
  appSchemaValues: 20_000,
  /** Of a function, a parameter, an argument. */
  nameChars: 256,
  /** Each of a docstring, an annotation, a default as text. */
  noteChars: 4_096,
  /** Longer ones are cut. */
  messageChars: 8_192,
  tracebackChars: 16_384,
  /** Arguments that do not fit. */
  misfits: 500,
  /** A little more than a day: longer than any run may take. */
  runMs: 100_000_000,
  /** A longer printed line is cut into several. */
  lineBytes: 64 * KIB,
} as const;

/** What an app's configuration says of the results and chunks of its functions. */
export type PayloadLimits = { readonly maxResultBytes: number; readonly maxChunkBytes: number };

const MESSAGE_MARK = " [millrace: cut]";
const TRACEBACK_MARK = "[millrace: cut]\n";

/** An error's text as it is kept: its beginning. */
export function cutMessage(text: string): string {
  const { messageChars } = WIRE_LIMITS;
  return text.length <= messageChars ? text : text.slice(0, messageChars) + MESSAGE_MARK;
}

/** A traceback as it is kept: its end, where the error is. */
export function cutTraceback(text: string): string {
  const { tracebackChars } = WIRE_LIMITS;
  return text.length <= tracebackChars ? text : TRACEBACK_MARK + text.slice(-tracebackChars);
}

/** The other side does not speak the protocol; the text is ours and short, and may be shown. */
export class BadFrame extends Error {}

/** By phase: which words may come, and the phase that each leads to. */
export type Moves<Phase extends string, Word extends string> = Readonly<
  Record<Phase, Readonly<Partial<Record<Word, Phase>>>>
>;

/** Reads JSON of a shape. Its depth is bounded: what is kept of it is written as JSON again, by a recursion. */
export function parseJson<Schema extends z.ZodType>(
  what: string,
  schema: Schema,
  payload: Buffer,
): z.output<Schema> {
  const scan = new JsonScan(WIRE_LIMITS.depth);
  if (!scan.push(payload) || !scan.isWhole) throw new BadFrame(`${what} that is not JSON`);
  const parsed = schema.safeParse(JSON.parse(payload.toString()));
  if (parsed.success) return parsed.data;
  throw new BadFrame(`${what} that cannot be read: ${describe(parsed.error)}`);
}

/** Where the first fault is: words of the protocol's own and numbers, never a piece of what was sent. */
function describe({ issues }: z.ZodError): string {
  const [issue] = issues;
  if (!issue) return "";
  return `${issue.code === "custom" ? issue.message : issue.code} at "${issue.path.join(".")}"`;
}

/** Takes a line for a message in JSON; throws `BadFrame` for what is none. Each message has one member, its word. */
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

/** Reads the lines of one connection; throws `BadFrame` also for what may not come then. */
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
