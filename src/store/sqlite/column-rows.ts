import type { SQLInputValue } from "node:sqlite";
import type { ColumnBatch } from "../column-batch.ts";

/** Each row's values in turn, in the order of `columnNames`, in one array that is used again for the next. */
export function* columnRows(batch: ColumnBatch): Generator<readonly SQLInputValue[]> {
  const { rowCount, numbers, texts, uuids, blobs } = batch;
  const ids = Buffer.from(uuids.text.replaceAll("-", ""), "hex");
  const texted = [null, ...texts.values];
  const values: SQLInputValue[] = [];
  let blob = 0;
  let blobStart = 0;
  for (let row = 0; row < rowCount; row++) {
    let i = 0;
    for (let at = row; at < numbers.values.length; at += rowCount) {
      const value = numbers.values[at]!;
      values[i++] = Number.isNaN(value) ? null : value;
    }
    for (let at = row; at < texts.codes.length; at += rowCount) values[i++] = texted[texts.codes[at]!]!;
    for (let at = row * 16; at < ids.length; at += rowCount * 16) values[i++] = ids.subarray(at, at + 16);
    for (const end = blob + blobs.names.length; blob < end; blob++) {
      const length = blobs.lengths[blob]!;
      values[i++] = length < 0 ? null : blobs.bytes.subarray(blobStart, blobStart + length);
      if (length > 0) blobStart += length;
    }
    yield values;
  }
}
