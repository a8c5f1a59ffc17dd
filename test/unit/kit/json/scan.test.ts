import * as fc from "fast-check";
import { expect, test } from "vitest";
import { JsonScan, isJson } from "../../../../src/kit/json/scan.ts";

function isParsed(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** What a scan says of bytes that arrive cut at these places, from a buffer that grows. */
function scanCut(bytes: Buffer, cuts: readonly number[]): boolean {
  const scan = new JsonScan();
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  for (const [i, place] of places.slice(1).entries()) {
    if (!scan.push(bytes.subarray(0, place), places[i])) return false;
  }
  return scan.isWhole;
}

const WHOLE = [
  "0",
  "-0",
  "1",
  "-12.5",
  "1e5",
  "1E-5",
  "0.5e+10",
  "true",
  "false",
  "null",
  '""',
  '"a\\u00e9\\n\\/"',
  "[]",
  "{}",
  " [ 1 , 2 ] ",
  '{"a":{"b":[null,true,{"c":"d"}]},"e":-1.0}\n',
  '"\\ud800"',
  "[[[[]]]]",
  '{"a":1,"a":2}',
];
const BROKEN = [
  "",
  " ",
  "NaN",
  "-Infinity",
  "Infinity",
  "[NaN]",
  "01",
  "-",
  "1.",
  ".5",
  "1e",
  "1e+",
  "+1",
  "tru",
  "truex",
  "nul",
  '"',
  '"\\',
  '"\\x"',
  '"\\u12"',
  '"\\u12g4"',
  '"\n"',
  "[",
  "[1",
  "[1,",
  "[1,]",
  "[,1]",
  "{",
  '{"a"',
  '{"a":',
  '{"a":1',
  '{"a":1,',
  '{"a":1,}',
  "{a:1}",
  "{1:1}",
  "1 2",
  "[]]",
  "}",
  '{"a":1]',
  "[1}",
  "'a'",
  "\u00a01",
  "\ufeff1",
  "[1 2]",
  '{"a" 1}',
  '{"a":1 "b":2}',
  "--1",
  "1-",
  "1e5.5",
  "\f1",
  "undefined",
  '"a"b',
  "/**/1",
];

test.each(WHOLE)("%s is JSON, however it arrives", (text) => {
  expect(isJson(Buffer.from(text))).toBe(true);
  expect(scanCut(Buffer.from(text), [...Buffer.from(text).keys()])).toBe(true);
});

test.each(BROKEN)("%j is not", (text) => {
  expect(isParsed(text)).toBe(false);
  expect(isJson(Buffer.from(text))).toBe(false);
  expect(scanCut(Buffer.from(text), [...Buffer.from(text).keys()])).toBe(false);
});

test("it says of every text what JSON.parse says, whole and in pieces", () => {
  const cuts = fc.array(fc.nat(), { maxLength: 8 });
  const noise = fc.array(
    fc.constantFrom(...Array.from('{}[],:"\\0123.eE+- tfn'), "u00", "true", "null", "a"),
    {
      maxLength: 12,
    },
  );
  const texts = fc.oneof(
    fc.json(),
    fc.jsonValue().map((value) => JSON.stringify(value, null, 2)),
    noise.map((signs) => signs.join("")),
    // A text with one sign changed or taken away.
    fc
      .tuple(fc.json(), fc.nat(), fc.constantFrom("", "x", ",", '"', "}", "\\", "1", " "))
      .map(([text, at, sign]) => {
        const place = at % (text.length + 1);
        return text.slice(0, place) + sign + text.slice(place + 1);
      }),
  );
  fc.assert(
    fc.property(texts, cuts, (text, places) => {
      const bytes = Buffer.from(text);
      const expected = isParsed(bytes.toString());
      expect([text, isJson(bytes), scanCut(bytes, places)]).toEqual([text, expected, expected]);
    }),
    { numRuns: 2_000 },
  );
});

test("bytes that are not UTF-8 are not JSON", () => {
  expect(isJson(Buffer.from([0x22, 0xff, 0x22]))).toBe(false);
  expect(isJson(Buffer.from([0x22, 0xc3, 0xa9, 0x22]))).toBe(true);
  expect(isJson(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).toBe(false);
});

test("how deep a text goes is bounded, and what a scan remembers with it", () => {
  const nested = (depth: number) => Buffer.from("[".repeat(depth) + "]".repeat(depth));
  expect(isJson(nested(5_000))).toBe(true);
  expect(isJson(nested(100_001))).toBe(false);
  const scan = new JsonScan(3);
  expect(scan.push(nested(3)) && scan.isWhole).toBe(true);
  scan.reset();
  expect(scan.push(nested(4))).toBe(false);
});
