import { UUID_BYTES, blobStarts, columnNames } from "./column-batch.ts";
import type { ColumnBatch } from "./column-batch.ts";

export type Cell = number | string | Uint8Array | null;

/** One column of a batch. */
export type BatchColumn = {
  readonly name: string;
  /** It has the same value in every row. */
  readonly isConstant: boolean;
  readonly valueAt: (row: number) => Cell;
};

/** The columns in the order of `columnNames`. */
export function batchColumns(batch: ColumnBatch): BatchColumn[] {
  const columns = [
    ...numberColumns(batch),
    ...textColumns(batch),
    ...uuidColumns(batch),
    ...blobColumns(batch),
  ];
  return columnNames(batch).map((name, i) => ({ name, ...columns[i]! }));
}

/** One row, by the names of its columns. */
export function rowOf(batch: ColumnBatch, row: number): Record<string, Cell> {
  return Object.fromEntries(batchColumns(batch).map(({ name, valueAt }) => [name, valueAt(row)]));
}

type Unnamed = Omit<BatchColumn, "name">;

function numberColumns({ numbers: { names, values } }: ColumnBatch): Unnamed[] {
  const width = names.length;
  return names.map((_, column) => ({
    isConstant: isRepeated(values, column, width),
    valueAt: (row) => {
      const value = values[row * width + column]!;
      return Number.isNaN(value) ? null : value;
    },
  }));
}

function textColumns({ texts: { names, values, codes } }: ColumnBatch): Unnamed[] {
  const width = names.length;
  const texted = [null, ...values];
  return names.map((_, column) => ({
    isConstant: isRepeated(codes, column, width),
    valueAt: (row) => texted[codes[row * width + column]!]!,
  }));
}

function uuidColumns({ rowCount, uuids: { names, bytes } }: ColumnBatch): Unnamed[] {
  const width = names.length;
  // Asked for once: for each value they would cost as much as the value itself. The same below.
  const { buffer, byteOffset } = bytes;
  return names.map((_, column) => ({
    isConstant: isRepeatedId(bytes, column, width, rowCount),
    valueAt: (row) => new Uint8Array(buffer, byteOffset + (row * width + column) * UUID_BYTES, UUID_BYTES),
  }));
}

function blobColumns({ blobs }: ColumnBatch): Unnamed[] {
  const { names, lengths, bytes } = blobs;
  const width = names.length;
  const starts = blobStarts(blobs);
  const { buffer, byteOffset } = bytes;
  return names.map((_, column) => ({
    // Of blobs only the missing ones: comparing bytes would cost more than writing them again.
    isConstant: (lengths[column] ?? -1) < 0 && isRepeated(lengths, column, width),
    valueAt: (row) => {
      const i = row * width + column;
      const length = lengths[i]!;
      return length < 0 ? null : new Uint8Array(buffer, byteOffset + starts[i]!, length);
    },
  }));
}

function isRepeated(values: Float64Array | Uint32Array | Int32Array, column: number, width: number): boolean {
  const value = values[column];
  for (let i = column + width; i < values.length; i += width) if (!Object.is(values[i], value)) return false;
  return true;
}

function isRepeatedId(bytes: Uint8Array, column: number, width: number, rowCount: number): boolean {
  for (let row = 1; row < rowCount; row++) {
    const at = (row * width + column) * UUID_BYTES;
    const before = at - width * UUID_BYTES;
    for (let i = 0; i < UUID_BYTES; i++) if (bytes[at + i] !== bytes[before + i]) return false;
  }
  return true;
}
