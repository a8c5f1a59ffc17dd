import { z } from "zod";
import type { FunctionSignature } from "../model/app.ts";
import type { InitFailure } from "./engine.ts";
import { WIRE_LIMITS, cutMessage, cutTraceback, parseJson } from "./protocol.ts";

const { functions: MAX_FUNCTIONS, parameters: MAX_PARAMETERS, noteChars, nameChars } = WIRE_LIMITS;
const { schemaValues: MAX_SCHEMA_VALUES, appSchemaValues: MAX_APP_SCHEMA_VALUES } = WIRE_LIMITS;
/** What Linux gives at most. */
const MAX_PID = 2 ** 22;
const VERSION_CHARS = 32;

/** Of a process, as it tells it. */
export const pid = z.int().min(1).max(MAX_PID);
const name = z.string().min(1).max(nameChars);
const note = z.string().max(noteChars).nullable();

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

/** The functions that an app offers. */
export const functions = z
  .array(functionSignature)
  .max(MAX_FUNCTIONS)
  .refine((all) => sumOf(all, ({ parameters }) => parameters.length) <= MAX_PARAMETERS, {
    message: `more than ${MAX_PARAMETERS} parameters`,
  })
  .refine((all) => sumOf(all, schemaValues) <= MAX_APP_SCHEMA_VALUES, {
    message: `schemas of more than ${MAX_APP_SCHEMA_VALUES} values in all`,
  });

const hello = z.object({ pid, python: z.string().max(VERSION_CHARS), functions });
/** Why an app cannot start. */
export const initFailure = z.object({
  message: z.string().transform(cutMessage),
  traceback: z.string().transform(cutTraceback),
});

/** HELLO. */
export function parseHello(payload: Buffer): z.output<typeof hello> {
  return parseJson("HELLO", hello, payload);
}

/** INIT_FAILED. */
export function parseInitFailure(payload: Buffer): InitFailure {
  return parseJson("INIT_FAILED", initFailure, payload);
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
