import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uuidv7 } from "../../../src/kit/ids.ts";
import { packColumns } from "../../../src/store/column-batch.ts";
import { arraysOf } from "../../../src/store/postgres/insert-columns.ts";

type Row = { readonly n: number | null; readonly t: string | null; readonly id?: string };
const SOURCES = {
  numbers: { n: (row: Row) => row.n, twice: (row: Row) => row.n && row.n * 2 },
  texts: { t: (row: Row) => row.t, fixed: () => "f" },
  uuids: { id: (row: Row) => row.id ?? "018f0000-0000-7000-8000-00000000abcd" },
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
        const wantedNumbers = [...rows.map((r) => r.n), ...rows.map((r) => r.n && r.n * 2)];
        expect([...numbers.values].map((value) => (Number.isNaN(value) ? null : value))).toEqual(
          wantedNumbers,
        );
        const wantedTexts = rows.map((r) => r.t?.replaceAll("\0", "\uFFFD") ?? null);
        expect([...texts.codes].map((code) => [null, ...texts.values][code])).toEqual([
          ...wantedTexts,
          ...rows.map(() => "f"),
        ]);
      }),
    );
  });

  test("a text that repeats travels once", () => {
    const rows = ["x", null, "x", "f", "x"].map((t) => ({ n: null, t }));
    expect(packColumns(rows, SOURCES).texts).toEqual({
      names: ["t", "fixed"],
      values: ["x", "f"],
      codes: Uint32Array.of(1, 0, 1, 2, 1, 2, 2, 2, 2, 2),
    });
  });

  test("an id that is not 36 characters long is refused before it shifts the others", () => {
    const pack = (ids: string[]) =>
      packColumns(
        ids.map((id) => ({ n: 1, t: null, id })),
        SOURCES,
      );
    expect(pack([uuidv7(1), uuidv7(2)]).uuids.text).toHaveLength(72);
    expect(() => pack([uuidv7(1), "short"])).toThrow("not a UUID: short");
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

  test("ids are bytes in hexadecimal", () => {
    const bytes = String.raw`"\\x018f000000007000800000000000abcd"`;
    const row = { n: null, t: null };
    expect(literalsOf([row, row])["id"]).toBe(`{${bytes},${bytes}}`);
  });
});
