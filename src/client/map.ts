import { type BatchOptions, canBeReadAgain, type Source } from "./batch-upload.ts";
import { Batches } from "./batches.ts";
import type { Arguments } from "./call.ts";
import type { Transport } from "./transport.ts";

export type MapOptions = BatchOptions & {
  /** Whether results come in the order of the inputs, and not as the calls end; true if not given. */
  readonly ordered?: boolean;
  /** Whether the error of a call is yielded in place of its result, and does not end the loop. */
  readonly returnExceptions?: boolean;
};

export type EachOptions = BatchOptions & {
  /** Whether calls may fail; otherwise the first error is thrown, and the calls that have not ended are cancelled. */
  readonly ignoreExceptions?: boolean;
};

/**
 * Calls a function once for each input, as one batch, and yields what it returned. Leaving the loop cancels the calls that
 * have not ended.
 */
export async function* mapOver<T>(
  transport: Transport,
  app: string,
  inputs: Source<Arguments>,
  { ordered = true, returnExceptions = false, ...options }: MapOptions,
): AsyncGenerator<T, void, void> {
  const batch = await new Batches(transport).upload<T, Arguments>(app, inputs, inputText, options);
  if (!batch) return;
  const order = ordered ? "input" : "finished";
  let isOver = false;
  try {
    for await (const { result, error } of batch.results({ ...options, order })) {
      if (error && !returnExceptions) throw error;
      yield (error ?? result) as T;
    }
    isOver = true;
  } finally {
    if (!isOver) await batch.cancel().catch(() => undefined);
  }
}

/** The arguments in rows of values, each for the parameter at its place. They can be read again if the rows can. */
export function argumentsOf(
  parameters: readonly string[],
  rows: Source<readonly unknown[]>,
): Source<Arguments> {
  const named = (row: readonly unknown[]): Arguments => {
    if (row.length === parameters.length)
      return Object.fromEntries(parameters.map((name, at) => [name, row[at]]));
    throw new TypeError(`A row has ${row.length} values for ${parameters.length} parameters.`);
  };
  const all = async function* () {
    for await (const row of rows) yield named(row);
  };
  if (!canBeReadAgain(rows)) return all();
  return {
    *[Symbol.iterator]() {
      for (const row of rows) yield named(row);
    },
  };
}

function inputText(input: Arguments): string {
  return `{"input":${JSON.stringify(input)}}`;
}
