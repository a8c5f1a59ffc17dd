import * as fc from "fast-check";
import { expect, test } from "vitest";
import { findMembers } from "../../../../src/kit/json/members.ts";

const read = (text: string, ...names: string[]) =>
  [...findMembers(Buffer.from(text), names)].map(([name, { bytes, items }]) => [
    name,
    bytes.toString(),
    items,
  ]);

test("finds the text of members, however they are written", () => {
  expect(read("{}", "a")).toEqual([]);
  expect(read(' { "b" : {"a":1} , "a" : -1.5e3 } ', "a")).toEqual([["a", "-1.5e3", null]]);
  expect(read('{"x":"\\"a\\":1","a":"]}\\\\","c":[1,[2,3],"],"]}', "c", "a")).toEqual([
    ["a", '"]}\\\\"', null],
    ["c", '[1,[2,3],"],"]', 3],
  ]);
  expect(read('{"\\u0061":true,"e":[ ],"__proto__":{"f":[]}}', "a", "e", "f", "__proto__")).toEqual([
    ["a", "true", null],
    ["e", "[ ]", 0],
    ["__proto__", '{"f":[]}', null],
  ]);
  const long = JSON.stringify({ a: '\\"'.repeat(99) + "x".repeat(99) + "\\", b: 1 });
  expect(read(long, "b")).toEqual([["b", "1", null]]);
});

test("finds what a parser finds", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string({ maxLength: 3, unit: "binary" }), fc.jsonValue({ maxDepth: 3 }), {
        maxKeys: 6,
      }),
      fc.nat({ max: 3 }),
      (object, indent) => {
        const body = Buffer.from(JSON.stringify(object, null, indent));
        const parsed = JSON.parse(body.toString()) as Record<string, unknown>;
        const names = Object.keys(parsed);
        const found = findMembers(body, [...names, "none of them"]);
        expect([...found.keys()].toSorted()).toEqual(names.toSorted());
        for (const [name, { bytes, items }] of found) {
          const value = Object.getOwnPropertyDescriptor(parsed, name)?.value as unknown;
          expect(JSON.parse(bytes.toString())).toEqual(value);
          expect(items).toBe(Array.isArray(value) ? value.length : null);
        }
      },
    ),
  );
});
