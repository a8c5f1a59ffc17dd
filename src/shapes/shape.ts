import * as z from "zod/mini";

/** The schema of an API document. */
export type Shape<Document = unknown> = z.core.$ZodType<Document>;

/** The type of documents with that shape. */
export type Infer<S extends Shape> = z.output<S>;

/** An answer that does not have the expected shape. */
export class ShapeError extends Error {
  /** The path in the document, and the kind of problem. */
  readonly fault: string;

  constructor(fault: string) {
    super(`unexpected response: ${fault}`);
    this.name = "ShapeError";
    this.fault = fault;
  }
}

/**
 * Returns the value as a document of that shape, with unknown members; throws a ShapeError if it is not. Formats and
 * ranges are not checked: an unexpected date must not hide the list that contains it.
 */
export function checked<S extends Shape>(shape: S, value: unknown): Infer<S> {
  const fault = faultIn(shape, value);
  if (fault !== null) throw new ShapeError(fault);
  return value as Infer<S>;
}

/** Whether the value has the shape, checked in the same way. */
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

/** The members of an error answer; empty if it comes from a proxy or is not JSON. */
export type ErrorBody = Infer<typeof SOME_OF_ERROR>;

/** Reads the error in a parsed JSON answer. */
export function errorIn(value: unknown): ErrorBody {
  return fits(SOME_OF_ERROR, value) ? value : {};
}
