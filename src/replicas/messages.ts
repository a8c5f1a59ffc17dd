import { z } from "zod";
import { BadFrame, WIRE_LIMITS, cutMessage, cutTraceback, parseJson } from "../engines/protocol.ts";
import type { Outcome, Returned } from "../model/outcome.ts";

const { nameChars, runMs } = WIRE_LIMITS;
const milliseconds = z.number().min(0).max(runMs);
const message = z.string().transform(cutMessage);
const traceback = z.string().transform(cutTraceback);

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
  const fields = parseJson("FAILED", failure, payload);
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
