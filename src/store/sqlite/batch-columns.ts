import type { SQLInputValue } from "node:sqlite";
import { UUID_BYTES, columnNames, uuidAt } from "../column-batch.ts";
import type { BlobColumns, ColumnBatch } from "../column-batch.ts";

/** A column of a batch as SQLite takes it. */
export type BatchColumn = {
  readonly name: string;
  /** It has the same value in every row. */
  readonly isConstant: boolean;
  readonly valueAt: (row: number) => SQLInputValue;
};

/** The columns in the order of `columnNames`. */
export function batchColumns(batch: ColumnBatch): BatchColumn[] {
  const { rowCount, numbers, texts, uuids, blobs } = batch;
  const texted = [null, ...texts.values];
  const each = (count: number, columnAt: (first: number) => Omit<BatchColumn, "name">) =>
    Array.from({ length: count }, (_, column) => columnAt(column * rowCount));
  const columns = [
    ...each(numbers.names.length, (first) => ({
      isConstant: isRepeated(numbers.values, first, rowCount),
      valueAt: (row) => {
        const value = numbers.values[first + row]!;
        return Number.isNaN(value) ? null : value;
      },
    })),
    ...each(texts.names.length, (first) => ({
      isConstant: isRepeated(texts.codes, first, rowCount),
      valueAt: (row) => texted[texts.codes[first + row]!]!,
    })),
    ...each(uuids.names.length, (first) => ({
      isConstant: isRepeatedId(uuids.bytes, first, rowCount),
      valueAt: (row) => uuidAt(uuids.bytes, first + row),
    })),
    ...blobColumns(blobs, rowCount),
  ];
  return columnNames(batch).map((name, i) => ({ name, ...columns[i]! }));
}

function blobColumns({ names, lengths, bytes }: BlobColumns, rowCount: number): Omit<BatchColumn, "name">[] {
  const starts = new Uint32Array(lengths.length);
  let start = 0;
  for (let i = 0; i < lengths.length; i++) {
    starts[i] = start;
    start += Math.max(0, lengths[i]!);
  }
  return names.map((_, column) => {
    const valueAt = (row: number) => {
      const i = row * names.length + column;
      const length = lengths[i]!;
      return length < 0 ? null : new Uint8Array(bytes.buffer, bytes.byteOffset + starts[i]!, length);
    };
    let isConstant = true;
    for (let row = 0; row < rowCount && isConstant; row++)
      isConstant = lengths[row * names.length + column]! < 0;
    return { isConstant, valueAt };
  });
}

function isRepeated(values: Float64Array | Uint32Array, first: number, count: number): boolean {
  const value = values[first]!;
  for (let i = first + 1; i < first + count; i++) if (!Object.is(values[i], value)) return false;
  return true;
}

function isRepeatedId(bytes: Uint8Array, first: number, count: number): boolean {
  const end = (first + count) * UUID_BYTES;
  for (let at = (first + 1) * UUID_BYTES; at < end; at++) {
    if (bytes[at] !== bytes[at - UUID_BYTES]) return false;
  }
  return true;
}
