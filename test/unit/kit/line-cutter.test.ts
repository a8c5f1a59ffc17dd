import * as fc from "fast-check";
import { expect, test } from "vitest";
import { LineCutter } from "../../../src/kit/line-cutter.ts";

type Seen = { readonly text: string; readonly isPiece: boolean };

function cutAll(arrivals: readonly Buffer[], maxBytes: number, endsAtReturn = false): Seen[] {
  const seen: Seen[] = [];
  const cutter = new LineCutter({ maxBytes, endsAtReturn }, (bytes, isPiece) =>
    seen.push({ text: bytes.toString("latin1"), isPiece }),
  );
  for (const data of arrivals) {
    cutter.push(data);
    cutter.cut();
  }
  cutter.end();
  return seen;
}

/** The bytes cut at these places. */
function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return places.slice(1).map((place, i) => bytes.subarray(places[i], place));
}

const bytes = fc
  .array(fc.constantFrom(0x0a, 0x0d, 0x61, 0x62, 0xc3, 0xa9, 0xf0, 0x9f, 0x80, 0x00, 0xff), { maxLength: 60 })
  .map((values) => Buffer.from(values));
const cuts = fc.array(fc.nat(), { maxLength: 10 });
const maxBytes = fc.integer({ min: 4, max: 12 });

test("lines are the same however they arrive, and nothing is lost but their ends", () => {
  fc.assert(
    fc.property(bytes, cuts, maxBytes, fc.boolean(), (all, places, max, endsAtReturn) => {
      const seen = cutAll(pieces(all, places), max, endsAtReturn);
      expect(seen).toEqual(cutAll([all], max, endsAtReturn));
      expect(seen.every(({ text }) => text.length <= max)).toBe(true);
      const joined = seen.map(({ text, isPiece }) => (isPiece ? text : `${text}\n`)).join("");
      const ends = endsAtReturn ? /\r\n|\n|\r/g : /\n/g;
      const expected = all.toString("latin1").replaceAll(ends, "\n");
      expect(joined).toBe(expected === "" || expected.endsWith("\n") ? expected : `${expected}\n`);
    }),
    { numRuns: 1_000 },
  );
});

test("a piece never ends within a character", () => {
  for (const sign of ["é", "€", "😀"]) {
    for (let before = 0; before < 6; before++) {
      const seen = cutAll([Buffer.from(`${"x".repeat(before)}${sign.repeat(20)}`)], 8);
      const texts = seen.map(({ text }) => Buffer.from(text, "latin1").toString());
      expect(texts.join("")).toBe("x".repeat(before) + sign.repeat(20));
    }
  }
});

test("it stops where it is told, and goes on from there", () => {
  const lines: string[] = [];
  const cutter = new LineCutter({ maxBytes: 100 }, (line) => lines.push(line.toString()));
  cutter.push(Buffer.from("a\nb\nc\nd"));
  expect(cutter.cut(() => lines.length < 2)).toBe(false);
  expect(lines).toEqual(["a", "b"]);
  cutter.push(Buffer.from("e\n"));
  expect(cutter.cut()).toBe(true);
  expect(lines).toEqual(["a", "b", "c", "de"]);
});
