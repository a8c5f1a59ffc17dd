import * as z from "zod/mini";
import { fits } from "./shape.ts";
import type { Infer } from "./shape.ts";

/** An error as both planes write it. */
export const ERROR = z.object({
  message: z.string(),
  code: z.string(),
  request_id: z.string(),
  error: z.object({ message: z.string(), code: z.string(), type: z.string() }),
  details: z.optional(z.array(z.unknown())),
});

const SOME_OF_ERROR = z.partial(ERROR);

/** What there is of an error in an answer: nothing where it comes from a proxy in between, or is no JSON. */
export type ErrorBody = Infer<typeof SOME_OF_ERROR>;

/** Reads it; a value is what a JSON text holds. */
export function errorIn(value: unknown): ErrorBody {
  return fits(SOME_OF_ERROR, value) ? value : {};
}
