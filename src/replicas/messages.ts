import { z } from "zod";
import { JsonScan } from "../kit/json/scan.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome, Returned } from "../model/outcome.ts";
import type { InitFailure } from "./engine.ts";
import { BadFrame } from "./frame-reader.ts";
import { WIRE_LIMITS, cutMessage, cutTraceback } from "./wire-limits.ts";

const { functions: MAX_FUNCTIONS, parameters: MAX_PARAMETERS, noteChars, nameChars, runMs } = WIRE_LIMITS;
const { schemaValues: MAX_SCHEMA_VALUES, appSchemaValues: MAX_APP_SCHEMA_VALUES } = WIRE_LIMITS;
/** What Linux gives at most. */
const MAX_PID = 2 ** 22;
const MAX_EXIT_CODE = 255;
const VERSION_CHARS = 32;
const REASON_CHARS = 1_000;

const pid = z.int().min(1).max(MAX_PID);
const name = z.string().min(1).max(nameChars);
const note = z.string().max(noteChars).nullable();
const milliseconds = z.number().min(0).max(runMs);
const message = z.string().transform(cutMessage);
const traceback = z.string().transform(cutTraceback);

/** Made of the app's own code: whatever is wrong with one, it says nothing. */
const jsonSchema = z.record(z.string(), z.unknown()).catch({});

const functionSignature = z
  .object({
    name,
    parameters: z.array(
      z.object({
        name,
        kind: z.enum(["named", "rest"]),
        required: z.boolean(),
        annotation: note,
        default: note,
        schema: jsonSchema,
      }),
    ),
    is_async: z.boolean(),
    is_generator: z.boolean(),
    wants_run_id: z.boolean(),
    doc: note,
    streams: z.boolean().optional(),
    returns: jsonSchema,
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
  }));

const functions = z
  .array(functionSignature)
  .max(MAX_FUNCTIONS)
  .refine((all) => sumOf(all, ({ parameters }) => parameters.length) <= MAX_PARAMETERS, {
    message: `more than ${MAX_PARAMETERS} parameters`,
  })
  .refine((all) => sumOf(all, schemaValues) <= MAX_APP_SCHEMA_VALUES, {
    message: `schemas of more than ${MAX_APP_SCHEMA_VALUES} values in all`,
  });

const hello = z.object({ pid, python: z.string().max(VERSION_CHARS), functions });
const initFailure = z.object({ message, traceback });

const failure = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("raised"),
    code: z.enum(["app_error", "out_of_memory"]),
    message,
    traceback,
    run_ms: milliseconds,
  }),
  z.object({
    kind: z.literal("misfit"),
    details: z
      .array(z.object({ field: z.string().max(nameChars), problem: z.enum(["missing", "unknown"]) }))
      .max(WIRE_LIMITS.misfits),
    more: z.int().min(0).optional(),
  }),
  z.object({ kind: z.literal("no_function") }),
  z.object({
    kind: z.literal("unsendable"),
    code: z.enum(["result_not_json", "result_too_large"]),
    message,
    run_ms: milliseconds,
  }),
]);

/** What a template says, one JSON object per line. */
const templateMessage = z.union([
  z.object({
    ready: z.object({
      pid,
      forks: z.boolean(),
      reason: z.string().max(REASON_CHARS).nullable(),
      functions,
    }),
  }),
  z.object({ failed: initFailure }),
  z.object({ forked: z.object({ id: z.string().max(nameChars) }) }),
  z.object({
    exited: z.object({ id: z.string().max(nameChars), code: z.int().min(0).max(MAX_EXIT_CODE) }),
  }),
]);
export type TemplateMessage = z.output<typeof templateMessage>;

/** HELLO. */
export function parseHello(payload: Buffer): z.output<typeof hello> {
  return parse("HELLO", hello, payload);
}

/** INIT_FAILED. */
export function parseInitFailure(payload: Buffer): InitFailure {
  return parse("INIT_FAILED", initFailure, payload);
}

/** A line of a template. */
export function parseTemplateMessage(line: Buffer): TemplateMessage {
  return parse("a line", templateMessage, line);
}

/** RESULT: its bytes are not looked at; null when its status is none. */
export function parseResult(payload: Buffer): Returned | null {
  const status = payload.readUInt16LE(8) || 200;
  if (status < 200 || status > 599) return null;
  return { kind: "returned", runMs: parseMs(payload), status, json: payload.subarray(10) };
}

/** The milliseconds that a RESULT begins with, and an END is. */
export function parseMs(payload: Buffer): number {
  const ms = payload.readDoubleLE(0);
  // Written so that what is no number does not pass.
  if (!(ms >= 0 && ms <= runMs)) throw new BadFrame(`a run of ${ms} ms`);
  return ms;
}

/** FAILED: what went wrong, as a value. */
export function parseFailure(payload: Buffer): Outcome {
  const fields = parse("FAILED", failure, payload);
  switch (fields.kind) {
    case "raised":
      return {
        kind: "raised",
        code: fields.code,
        message: fields.message,
        traceback: fields.traceback,
        runMs: fields.run_ms,
      };
    case "misfit":
      return { kind: "misfit", details: fields.details, more: fields.more ?? 0 };
    case "no_function":
      return { kind: "no_function" };
    case "unsendable":
      return { kind: "unsendable", code: fields.code, message: fields.message, runMs: fields.run_ms };
    default:
      return fields satisfies never;
  }
}

/** Reads JSON of a shape. Its depth is bounded: what is kept of it is written as JSON again, by a recursion. */
function parse<Schema extends z.ZodType>(what: string, schema: Schema, payload: Buffer): z.output<Schema> {
  const scan = new JsonScan(WIRE_LIMITS.depth);
  if (!scan.push(payload) || !scan.isWhole) throw new BadFrame(`${what} that is not JSON`);
  const parsed = schema.safeParse(JSON.parse(payload.toString()));
  if (parsed.success) return parsed.data;
  throw new BadFrame(`${what} that cannot be read: ${describe(parsed.error)}`);
}

/** How many JSON values the schemas of a function have inside them; one more than may be if there are more. */
function schemaValues({ parameters, returns }: Pick<FunctionSignature, "parameters" | "returns">): number {
  let left = MAX_SCHEMA_VALUES + 1;
  for (const schema of [returns, ...parameters.map((parameter) => parameter.schema)])
    left -= countValues(schema, left);
  return MAX_SCHEMA_VALUES + 1 - left;
}

/** How many JSON values are inside a parsed one, at any depth; counts no further than `max`. */
function countValues(value: unknown, max: number): number {
  let count = 0;
  const rest = [value];
  while (rest.length > 0 && count < max) {
    const each = rest.pop();
    if (typeof each !== "object" || each === null) continue;
    const members: unknown[] = Object.values(each);
    count += members.length;
    // One by one: a call takes no more arguments than the stack has room for.
    for (const member of members) rest.push(member);
  }
  return Math.min(count, max);
}

function sumOf<Each>(all: readonly Each[], count: (each: Each) => number): number {
  return all.reduce((sum, each) => sum + count(each), 0);
}

/** Where the first fault is: words of the protocol's own and numbers, never a piece of what was sent. */
function describe({ issues }: z.ZodError): string {
  const [issue] = issues;
  if (!issue) return "";
  return `${issue.code === "custom" ? issue.message : issue.code} at "${issue.path.join(".")}"`;
}
