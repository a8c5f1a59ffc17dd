import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import {
  batchColumns,
  buffersOf,
  columnNames,
  joinBatches,
  packColumns,
  pickRows,
} from "../../../src/store/column-batch.ts";
import { arraysOf } from "../../../src/store/postgres/write-columns.ts";

type Row = {
  readonly n: number | null;
  readonly t: string | null;
  readonly id?: string;
  readonly b?: Uint8Array | null;
};
const SOURCES = {
  numbers: { n: (row: Row) => row.n, twice: (row: Row) => row.n && row.n * 2 },
  texts: { t: (row: Row) => row.t, fixed: () => "f" },
  uuids: { id: (row: Row) => row.id ?? "018f0000-0000-7000-8000-00000000abcd" },
};
const WITH_BLOBS = {
  ...SOURCES,
  blobs: { b: (row: Row) => row.b ?? null, same: (row: Row) => row.b ?? null },
};

describe("packing rows into columns", () => {
  test("every number and text is found again at its row", () => {
    const row = fc.record({
      n: fc.option(fc.double({ noNaN: true, min: -1e300, max: 1e300 })),
      t: fc.option(fc.oneof(fc.constantFrom("a", "b", ""), fc.string())),
    });
    fc.assert(
      fc.property(fc.array(row), (rows) => {
        const { rowCount, numbers, texts } = packColumns(rows, SOURCES);
        expect(rowCount).toBe(rows.length);
        expect([...numbers.values].map((value) => (Number.isNaN(value) ? null : value))).toEqual(
          rows.flatMap((r) => [r.n, r.n && r.n * 2]),
        );
        expect([...texts.codes].map((code) => [null, ...texts.values][code])).toEqual(
          rows.flatMap((r) => [r.t?.replaceAll("\0", "\uFFFD") ?? null, "f"]),
        );
      }),
    );
  });

  test("a text that repeats travels once", () => {
    const rows = ["x", null, "x", "f", "x"].map((t) => ({ n: null, t }));
    expect(packColumns(rows, SOURCES).texts).toEqual({
      names: ["t", "fixed"],
      values: ["x", "f"],
      codes: Uint32Array.of(1, 2, 0, 2, 1, 2, 2, 2, 1, 2),
    });
  });

  test("an id that is not 36 characters long is refused before it shifts the others", () => {
    const pack = (ids: string[]) =>
      packColumns(
        ids.map((id) => ({ n: 1, t: null, id })),
        SOURCES,
      );
    expect(pack([uuidv7(1), uuidv7(2)]).uuids.bytes).toHaveLength(32);
    expect(() => pack([uuidv7(1), "short"])).toThrow("not a UUID: short");
  });
});

/** The rows that SQLite's statements get, as objects. */
function rowsOf(batch: Parameters<typeof batchColumns>[0]) {
  const columns = batchColumns(batch);
  expect(columns.map(({ name }) => name)).toEqual(columnNames(batch));
  const plain = (value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value;
  return Array.from({ length: batch.rowCount }, (_, row) =>
    Object.fromEntries(columns.map(({ name, valueAt }) => [name, plain(valueAt(row))])),
  );
}

test("a column is called constant only where all rows have its first value", () => {
  const row = fc.record({
    n: fc.constantFrom(null, 0, -0, 7),
    t: fc.constantFrom(null, "a", ""),
    id: fc.constantFrom(uuidv7(1), uuidv7(2)),
    b: fc.constantFrom(null, Buffer.from("x")),
  });
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 4 }), (rows) => {
      const isSame = (name: keyof Row) => rows.every((each) => Object.is(each[name], rows[0]![name]));
      const constant = batchColumns(packColumns(rows, WITH_BLOBS)).filter(({ isConstant }) => isConstant);
      const names = constant.map(({ name }) => name);
      expect(names.includes("n")).toBe(isSame("n"));
      expect(names.includes("t")).toBe(isSame("t"));
      expect(names.includes("id")).toBe(isSame("id"));
      // Of blobs only the missing ones: comparing bytes would cost more than binding them again.
      expect(names.includes("b")).toBe(rows.every(({ b }) => b === null));
    }),
  );
});

describe("blobs", () => {
  const row = fc.record({
    n: fc.option(fc.integer()),
    t: fc.option(fc.constantFrom("a", "b")),
    b: fc.option(fc.uint8Array({ maxLength: 200 })),
  });

  test("every blob is found again at its row, byte for byte, empty ones and nulls too", () => {
    fc.assert(
      fc.property(fc.array(row), (rows) => {
        const batch = packColumns(rows, WITH_BLOBS);
        const hex = rows.map(({ b }) => b && Buffer.from(b).toString("hex"));
        expect(rowsOf(batch).map(({ b, same }) => [b, same])).toEqual(hex.map((blob) => [blob, blob]));
      }),
    );
  });

  test("what travels is as long as the blobs, whatever buffers they are parts of", () => {
    const large = Buffer.alloc(100_000);
    const rows = [large.subarray(5, 8), null, large.subarray(0, 2)].map((b) => ({ n: 1, t: null, b }));
    const { bytes, lengths } = packColumns(rows, WITH_BLOBS).blobs;
    expect(bytes.buffer.byteLength).toBe(10);
    expect(lengths).toEqual(Int32Array.of(3, 3, -1, -1, 2, 2));
  });

  test("rows packed apart and joined are the rows packed together, and those apart stay", () => {
    fc.assert(
      fc.property(fc.array(fc.array(row, { maxLength: 5 }), { minLength: 1, maxLength: 5 }), (groups) => {
        const named = groups.map((rows, i) => rows.map((each) => ({ ...each, id: uuidv7(i) })));
        const apart = named.map((rows) => packColumns(rows, WITH_BLOBS));
        const joined = joinBatches(apart);
        const together = packColumns(named.flat(), WITH_BLOBS);
        expect(joined.rowCount).toBe(together.rowCount);
        expect(rowsOf(joined)).toEqual(rowsOf(together));
        // The same columns repeat, whatever codes their texts had.
        const constants = (batch: typeof joined) => batchColumns(batch).map(({ isConstant }) => isConstant);
        expect(constants(joined)).toEqual(constants(together));
        structuredClone(joined, { transfer: buffersOf(joined) });
        expect(apart.flatMap(rowsOf)).toEqual(rowsOf(together));
      }),
    );
  });

  test("some of the rows are the same rows", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(row, fc.boolean())), (marked) => {
        const rows = marked.map(([each], i) => ({ ...each, id: uuidv7(i) }));
        const kept = marked.flatMap(([, isKept], i) => (isKept ? i : []));
        const picked = pickRows(packColumns(rows, WITH_BLOBS), kept);
        const wanted = packColumns(
          kept.map((i) => rows[i]!),
          WITH_BLOBS,
        );
        expect(picked.rowCount).toBe(kept.length);
        expect(rowsOf(picked)).toEqual(rowsOf(wanted));
      }),
    );
  });
});

describe("columns as Postgres arrays", () => {
  const literalsOf = (rows: readonly Row[]) =>
    Object.fromEntries(arraysOf(packColumns(rows, SOURCES)).map(({ name, literal }) => [name, literal]));

  test("null, the word NULL and every special character stay apart", () => {
    const rows = [null, "NULL", "", 'a"b', "c\\d", "{e,f}", " g "].map((t) => ({ n: null, t }));
    expect(literalsOf(rows)["t"]).toBe(String.raw`{NULL,"NULL","","a\"b","c\\d","{e,f}"," g "}`);
  });

  test("numbers keep every digit", () => {
    const rows = [0.1, null, -1e300, 1_767_323_045_678].map((n) => ({ n, t: null }));
    expect(literalsOf(rows)).toMatchObject({
      n: "{0.1,NULL,-1e+300,1767323045678}",
      twice: "{0.2,NULL,-2e+300,3534646091356}",
    });
  });

  test("a blob is where it begins, from 1, and how long it is", () => {
    const rows = [Buffer.from("abc"), null, Buffer.alloc(0)].map((b) => ({ n: null, t: null, b }));
    const sources = { ...SOURCES, blobs: { b: (row: Row) => row.b ?? null } };
    const arrays = arraysOf(packColumns(rows, sources)).filter(({ type }) => type === "integer[]");
    expect(arrays.map(({ name, literal }) => `${name} ${literal}`)).toEqual([
      "bStart {1,NULL,4}",
      "bLength {3,NULL,0}",
    ]);
  });

  test("ids are bytes in hexadecimal", () => {
    const bytes = String.raw`"\\x018f000000007000800000000000abcd"`;
    const row = { n: null, t: null };
    expect(literalsOf([row, row])["id"]).toBe(`{${bytes},${bytes}}`);
  });
});
