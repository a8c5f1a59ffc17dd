import { z } from "zod";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome, Returned } from "../model/outcome.ts";
import type { InitFailure } from "./engine.ts";

/** Made of the app's own code: whatever is wrong with one, it says nothing. */
const jsonSchema = z.record(z.string(), z.unknown()).catch({});

const functionSignature = z
  .object({
    name: z.string(),
    parameters: z.array(
      z.object({
        name: z.string(),
        kind: z.enum(["named", "rest"]),
        required: z.boolean(),
        annotation: z.string().nullable(),
        default: z.string().nullable(),
        schema: jsonSchema,
      }),
    ),
    is_async: z.boolean(),
    is_generator: z.boolean(),
    wants_run_id: z.boolean(),
    doc: z.string().nullable(),
    streams: z.boolean().optional(),
    returns: jsonSchema,
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

const hello = z.object({ pid: z.number(), python: z.string(), functions: z.array(functionSignature) });
const initFailure = z.object({ message: z.string(), traceback: z.string() });

const failure = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("raised"),
    code: z.enum(["app_error", "out_of_memory"]),
    message: z.string(),
    traceback: z.string(),
    run_ms: z.number(),
  }),
  z.object({
    kind: z.literal("misfit"),
    details: z.array(z.object({ field: z.string(), problem: z.enum(["missing", "unknown"]) })),
  }),
  z.object({ kind: z.literal("no_function") }),
  z.object({
    kind: z.literal("unsendable"),
    code: z.enum(["result_not_json", "result_too_large"]),
    message: z.string(),
    run_ms: z.number(),
  }),
]);

/** What a template says, one JSON object per line. */
const templateMessage = z.union([
  z.object({
    ready: z.object({
      pid: z.number(),
      forks: z.boolean(),
      reason: z.string().nullable(),
      functions: z.array(functionSignature),
    }),
  }),
  z.object({ failed: initFailure }),
  z.object({ exited: z.object({ id: z.string(), code: z.number() }) }),
]);
export type TemplateMessage = z.output<typeof templateMessage>;

export function parseHello(payload: Buffer): { pid: number; functions: readonly FunctionSignature[] } {
  return hello.parse(JSON.parse(payload.toString()));
}

export function parseInitFailure(payload: Buffer): InitFailure {
  return initFailure.parse(JSON.parse(payload.toString()));
}

export function parseTemplateMessage(line: string): TemplateMessage {
  return templateMessage.parse(JSON.parse(line));
}

/** RESULT: the result's own bytes are not looked at. */
export function parseResult(payload: Buffer): Returned {
  return {
    kind: "returned",
    runMs: payload.readDoubleLE(0),
    status: payload.readUInt16LE(8) || 200,
    json: payload.subarray(10),
  };
}

/** FAILED: what went wrong, as a value. */
export function parseFailure(payload: Buffer): Outcome {
  const fields = failure.parse(JSON.parse(payload.toString()));
  switch (fields.kind) {
    case "raised": {
      const { code, message, traceback, run_ms: runMs } = fields;
      return { kind: "raised", code, message, traceback, runMs };
    }
    case "misfit":
      return { kind: "misfit", details: fields.details };
    case "no_function":
      return { kind: "no_function" };
    case "unsendable":
      return { kind: "unsendable", code: fields.code, message: fields.message, runMs: fields.run_ms };
    default:
      return fields satisfies never;
  }
}
