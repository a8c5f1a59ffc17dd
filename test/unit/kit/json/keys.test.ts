import * as fc from "fast-check";
import { expect, test } from "vitest";
import { checkJson } from "../../../../src/kit/json/check-json.ts";
import { memberNames } from "../../../../src/kit/json/keys.ts";

/**
 * Any member name but two kinds: digits alone, which an object of JavaScript would put first, and backslashes,
 * after which V8's JSON.parse takes other escaped names for that one (seen in Node 24).
 */
const name = fc
  .oneof(
    fc.string({ unit: "grapheme", maxLength: 6 }),
    fc.constantFrom('"', '""', "{", "}", "[", ":", ",", "a:b", "\n", "\0", "😀", "__proto__"),
  )
  .map((text) => (/^\d+$/.test(text) ? `n${text}` : text.replaceAll("\\", "/")));
const value = fc.letrec<{ any: unknown; object: unknown }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, 0, -1.5e300),
    name,
    fc.array(tie("any"), { maxLength: 3 }),
    tie("object"),
  ),
  object: fc.dictionary(name, tie("any"), { maxKeys: 4 }),
}));

/** The same value with other white space. */
const indent = fc.constantFrom("", " ", "\t", 2);

test("the names of an object's own members, in their order, as JSON.parse finds them", () => {
  fc.assert(
    fc.property(
      fc.dictionary(name, value.any, { maxKeys: 6 }),
      indent,
      fc.boolean(),
      (object, gap, isEscaped) => {
        const plain = JSON.stringify(object, null, gap);
        const text = isEscaped ? escaped(plain) : plain;
        const body = Buffer.from(text);
        fc.pre(checkJson(body) === null);
        expect(memberNames(body)).toEqual(Object.keys(JSON.parse(text) as object));
      },
    ),
    { numRuns: 1_000 },
  );
});

/** Every character beyond ASCII as its escape. */
function escaped(json: string): string {
  return json.replaceAll(/[^ -~\s]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

test("escapes in a name are read, quotes and colons in values are not taken for names", () => {
  const body = String.raw`{"a\"b":"c\\","\u0064":{"e":1,"f":[{"g":":"}]},"h":"}","i\\":[",","j"]}`;
  expect(memberNames(Buffer.from(body))).toEqual(['a"b', "d", "h", "i\\"]);
  expect(memberNames(Buffer.from("{}"))).toEqual([]);
});
