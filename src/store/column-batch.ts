/**
 * Many rows as columns, column after column. A thousand runs as objects cost the sending thread 1.1 µs and
 * the receiving thread 2.6 µs a row in structured clone; packed like this all that is left to clone is two
 * typed arrays, one string and the distinct texts.
 */
export type ColumnBatch = {
  readonly rowCount: number;
  /** NaN stands for null. */
  readonly numbers: { readonly names: readonly string[]; readonly values: Float64Array };
  /** `codes` point into `values`, from 1; 0 stands for null. */
  readonly texts: {
    readonly names: readonly string[];
    readonly values: readonly string[];
    readonly codes: Uint32Array;
  };
  /** 36 characters a value; never null. */
  readonly uuids: { readonly names: readonly string[]; readonly text: string };
};

/** Where the columns' values come from in a row. */
export type ColumnSources<Row> = {
  readonly numbers: Readonly<Record<string, (row: Row) => number | null>>;
  readonly texts: Readonly<Record<string, (row: Row) => string | null>>;
  readonly uuids: Readonly<Record<string, (row: Row) => string>>;
};

/** Turns rows into columns, one for each source. */
export function packColumns<Row>(rows: readonly Row[], sources: ColumnSources<Row>): ColumnBatch {
  return {
    rowCount: rows.length,
    numbers: packNumbers(rows, sources.numbers),
    texts: packTexts(rows, sources.texts),
    uuids: packUuids(rows, sources.uuids),
  };
}

function packNumbers<Row>(
  rows: readonly Row[],
  sources: ColumnSources<Row>["numbers"],
): ColumnBatch["numbers"] {
  const names = Object.keys(sources);
  const values = new Float64Array(rows.length * names.length);
  let i = 0;
  for (const get of Object.values(sources)) {
    for (const row of rows) values[i++] = get(row) ?? Number.NaN;
  }
  return { names, values };
}

function packTexts<Row>(rows: readonly Row[], sources: ColumnSources<Row>["texts"]): ColumnBatch["texts"] {
  const names = Object.keys(sources);
  const codes = new Uint32Array(rows.length * names.length);
  const values: string[] = [];
  const codeOf = new Map<string | null, number>([[null, 0]]);
  let previous: string | null = null;
  let code = 0;
  let i = 0;
  for (const get of Object.values(sources)) {
    for (const row of rows) {
      const value = get(row);
      if (value !== previous) {
        code = codeOf.get(value) ?? values.push(storable(value!));
        codeOf.set(value, code);
        previous = value;
      }
      codes[i++] = code;
    }
  }
  return { names, values, codes };
}

function packUuids<Row>(rows: readonly Row[], sources: ColumnSources<Row>["uuids"]): ColumnBatch["uuids"] {
  let text = "";
  for (const get of Object.values(sources)) {
    for (const row of rows) {
      const id = get(row);
      // Values are told apart by length alone: one short id would shift every id after it.
      if (id.length !== 36) throw new TypeError(`not a UUID: ${id}`);
      text += id;
    }
  }
  return { names: Object.keys(sources), text };
}

/** Postgres refuses a NUL in text, and one such message must not fail the rows beside it. */
function storable(text: string): string {
  return text.includes("\0") ? text.replaceAll("\0", "\uFFFD") : text;
}
