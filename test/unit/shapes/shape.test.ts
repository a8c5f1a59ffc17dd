import * as z from "zod/mini";
import { expect, test } from "vitest";
import { AppError, errorBody } from "../../../src/model/errors.ts";
import { checked, errorIn, ShapeError } from "../../../src/shapes/shape.ts";
import { verifies } from "../../verifies.ts";

const LIST = z.array(
  z.object({
    id: z.uuid(),
    state: z.enum(["on", "off"]),
    count: z.int().check(z.gte(0)),
    at: z.iso.datetime(),
  }),
);
const GOOD = {
  id: "0197c3a0-7e1b-7abc-8def-0123456789ab",
  state: "on",
  count: 1,
  at: "2026-01-02T03:04:05.006Z",
};

verifies("design.shapes", "an answer of another form is refused, with the place where it differs", () => {
  const faultIn = (change: object): string => {
    try {
      checked(LIST, [GOOD, { ...GOOD, ...change }]);
      return "";
    } catch (error) {
      return (error as ShapeError).fault;
    }
  };
  expect(faultIn({})).toBe("");
  expect(faultIn({ id: undefined })).toBe("1.id (invalid_type)");
  expect(faultIn({ count: "1" })).toBe("1.count (invalid_type)");
  expect(faultIn({ state: "between" })).toBe("1.state (invalid_value)");
  expect(() => checked(LIST, {})).toThrow(ShapeError);
  expect(() => checked(LIST, {})).toThrow("unexpected response: not the expected kind of document");
});

test("what comes is what is given back, with members that nobody knows", () => {
  const document = [{ ...GOOD, more: { deep: 1 } }];
  expect(checked(LIST, document)).toBe(document);
  expect(document).toEqual([{ ...GOOD, more: { deep: 1 } }]);
});

test("a date or a number that is out of the ordinary hides nothing", () => {
  const strange = [{ ...GOOD, at: "+012026-01-02T03:04:05.006Z", count: -1, id: "no uuid" }];
  expect(checked(LIST, strange)).toBe(strange);
});

test("of an error there is what the answer has of one, and nothing of anything else", () => {
  const error = errorBody(new AppError("bad_request", { details: [{ field: "a" }] }), "r-1");
  expect(errorIn(JSON.parse(error))).toEqual(JSON.parse(error));
  expect(errorIn({ message: "too large", code: "body_too_large" })).toEqual({
    message: "too large",
    code: "body_too_large",
  });
  expect([{ message: 502 }, "Bad Gateway", null, []].map(errorIn)).toEqual([{}, {}, {}, {}]);
});
