import * as fc from "fast-check";
import { expect, test } from "vitest";
import { readJson } from "../../../../src/management/api/bodies.ts";
import { AppError } from "../../../../src/model/errors.ts";

const JSON_TYPE = { "content-type": "application/json" };

function codeOf(body: string | Buffer, headers: Record<string, string> = JSON_TYPE): string | null {
  try {
    readJson(Buffer.from(body), headers, 1_000);
    return null;
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
}

test("JSON comes back as it was sent, and an empty body is none", () => {
  expect(readJson(Buffer.alloc(0), JSON_TYPE, 1)).toBeUndefined();
  const text = fc
    .dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 }), { noNullPrototype: true })
    .filter((value) => !/\\u0000|\\ud[89a-f]/.test(JSON.stringify(value)));
  fc.assert(
    fc.property(text, (value) => {
      const sent = JSON.stringify(value);
      expect(JSON.stringify(readJson(Buffer.from(sent), JSON_TYPE, 1_000))).toBe(sent);
    }),
  );
});

test.each([
  ["text that is not JSON", "{"],
  ["bytes that are not UTF-8", Buffer.from([0x22, 0xff, 0x22])],
  ["a lone surrogate", '{"a":"\\ud800"}'],
  ["an array", "[]"],
  ["a single value", "null"],
  ["a name that stands twice", '{"a":1,"a":2}'],
  ["more values than its route takes", `{"a":[${"0,".repeat(1_000)}0]}`],
  ["a NUL in a value", '{"a":["\\u0000"]}'],
  ["a NUL in a name", '{"a\\u0000":1}'],
  ["a nesting that is too deep", `{"a":${"[".repeat(32)}${"]".repeat(32)}}`],
  ["a nesting of a million", `{"a":${"[".repeat(1_000_000)}`],
])("%s is not JSON here", (_, body) => {
  expect(codeOf(body)).toBe("invalid_json");
});

test("32 levels are not too deep, and as many values as may be are not too many", () => {
  expect(codeOf(`{"a":${"[".repeat(31)}${"]".repeat(31)}}`)).toBeNull();
  expect(codeOf(`{"a":[${"0,".repeat(997)}0]}`)).toBeNull();
});

test.each([
  [{ "content-type": "application/json; charset=utf-8" }, null],
  [{ "content-type": 'application/json;charset="UTF-8"' }, null],
  [{ "content-type": "application/json; charset=latin1" }, "unsupported_media_type"],
  [{ "content-type": "application/json", "content-encoding": "gzip" }, "unsupported_media_type"],
  [{ "content-type": "application/json", "content-encoding": "identity" }, null],
])("a body with the headers %o", (headers, code) => {
  expect(codeOf("{}", headers)).toBe(code);
});
