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
