import * as fc from "fast-check";
import { expect, test } from "vitest";
import { compactJson, indentedJson, membersOfJson } from "../../../src/model/json-layout.ts";
import { verifies } from "../../verifies.ts";

const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);

test("what is not deep is laid out as JSON.stringify does", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const text = JSON.stringify(value);
      // Its own order of members, which JSON.parse changes where names are numbers.
      const read: unknown = JSON.parse(text);
      expect(JSON.parse(indentedJson(text))).toEqual(read);
      expect(indentedJson(JSON.stringify(read))).toBe(JSON.stringify(read, null, 2));
      expect(compactJson(JSON.stringify(read, null, 3))).toBe(JSON.stringify(read));
    }),
  );
});

test("digits, order and repeated members stay, and letters take the place of their codes", () => {
  expect(
    indentedJson(' {"b" : 12345678901234567890.10,"1":1e400, "b":"\\u05d0\\n\\"" , "c":[ ],"d":{}}\n'),
  ).toBe('{\n  "b": 12345678901234567890.10,\n  "1": 1e400,\n  "b": "א\\n\\"",\n  "c": [],\n  "d": {}\n}');
});

test("what is not JSON is refused", () => {
  for (const text of ["", "{", '{"a":1,}', "[1 2]", "nul", '"a'])
    expect(() => indentedJson(text)).toThrow(SyntaxError);
});

verifies("dashboard.hostile", "indented JSON grows with its length, not with its depth", () => {
  // A line for each of 3,000 levels took 18 MB.
  expect(indentedJson(nested(3_000)).length).toBeLessThan(8_000);
  const deep = nested(1_000_000);
  expect(compactJson(indentedJson(deep))).toBe(deep);
  const members = `${'{"a":'.repeat(100_000)}0${"}".repeat(100_000)}`;
  expect(indentedJson(members).length).toBeLessThan(1.1 * members.length);
  expect(compactJson(indentedJson(members))).toBe(members);
});

test("an object's members are taken apart, however deep they are", () => {
  expect(membersOfJson('{"a": [1, {"b": 2}], "c,": "}", "d": 12345678901234567890}')).toEqual([
    ["a", '[1,{"b":2}]'],
    ["c,", '"}"'],
    ["d", "12345678901234567890"],
  ]);
  expect(membersOfJson(`{"a":${nested(200_000)}}`)?.[0]?.[1]).toHaveLength(400_000);
  expect(membersOfJson("{}")).toEqual([]);
  expect(["[]", "1", "{", "null"].map(membersOfJson)).toEqual([null, null, null, null]);
});
