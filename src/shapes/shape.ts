import * as z from "zod/mini";

/** What a document of the API has to look like. */
export type Shape<Document = unknown> = z.core.$ZodType<Document>;

/** What a document of that shape is. */
export type Infer<S extends Shape> = z.output<S>;

/** An answer that does not look as this release expects. */
export class ShapeError extends Error {
  /** Where, and in what way. */
  readonly fault: string;

  constructor(fault: string) {
    super(`unexpected response: ${fault}`);
    this.name = "ShapeError";
    this.fault = fault;
  }
}

/**
 * The value, known to have the shape; throws a ShapeError where it has not. Members that the shape does not name stay,
 * so that whoever prints the document prints all of it. How a text is spelt and how large a number is are the
 * service's affair: a strange date must not hide the list that it is in.
 */
export function checked<S extends Shape>(shape: S, value: unknown): Infer<S> {
  const fault = faultIn(shape, value);
  if (fault !== null) throw new ShapeError(fault);
  return value as Infer<S>;
}

/** Whether the value has the shape, in the same sense. */
export function fits<S extends Shape>(shape: S, value: unknown): value is Infer<S> {
  return faultIn(shape, value) === null;
}

const MINOR: ReadonlySet<string> = new Set(["invalid_format", "too_small", "too_big"]);

function faultIn(shape: Shape, value: unknown): string | null {
  const { error } = z.safeParse(shape, value);
  const fault = error?.issues.find(({ code }) => !MINOR.has(code));
  if (!fault) return null;
  return fault.path.length === 0
    ? "not the expected kind of document"
    : `${fault.path.join(".")} (${fault.code})`;
}

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
